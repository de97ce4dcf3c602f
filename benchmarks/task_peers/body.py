"""The tasks themselves, the same for every system, and the marks they leave.

A mark is a record of fixed size that is appended with one write to a file in memory; so marks of many
processes never mix, and the clock is one that all processes of a machine share.
"""

import asyncio
import os
import struct
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

BEGAN, ENDED = 0, 1
SLOW_S = 0.05

_RECORD = struct.Struct("=iiqq")


class Mark(NamedTuple):
    """A task began or ended in a process, at a time of the monotonic clock."""

    kind: int
    task: int
    pid: int
    ns: int


def arguments(i: int) -> dict[str, Any]:
    """What each no-op task is sent with."""
    return {"i": i, "name": "alpha", "x": [1, 2, 3]}


def noop(i: int, name: str, x: list[int]) -> int:  # noqa: ARG001 - sent, and not used
    _mark(ENDED, i)
    return i


def slow(i: int) -> int:
    _mark(BEGAN, i)
    time.sleep(SLOW_S)
    _mark(ENDED, i)
    return i


async def noop_async(i: int, name: str, x: list[int]) -> int:
    return noop(i, name, x)


async def slow_async(i: int) -> int:
    _mark(BEGAN, i)
    await asyncio.sleep(SLOW_S)
    _mark(ENDED, i)
    return i


def count_marks(path: Path) -> int:
    return path.stat().st_size // _RECORD.size


def read_marks(path: Path) -> list[Mark]:
    data = path.read_bytes()
    return [Mark(*fields) for fields in _RECORD.iter_unpack(data[: len(data) // _RECORD.size * _RECORD.size])]


def _mark(kind: int, task: int) -> None:
    os.write(_file(), _RECORD.pack(kind, task, os.getpid(), time.monotonic_ns()))


@cache
def _file() -> int:
    return os.open(os.environ["BENCH_MARKS"], os.O_WRONLY | os.O_APPEND)
