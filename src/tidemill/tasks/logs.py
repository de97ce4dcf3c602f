"""What a task prints, while it runs and after."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tidemill.store.watch import Watch
from tidemill.tasks.blobs import Shelves
from tidemill.tasks.pieces import LOGS, STREAMS, Piece, Stream, read_pieces
from tidemill.tasks.registry import Registry
from tidemill.tasks.status import is_live
from tidemill.tasks.task import Task


async def read_output(shelves: Shelves, value: Any) -> bytes:
    """An output as a task's document carries it: text, or the reference of a blob."""
    if value is None:
        return b""
    return value.encode() if isinstance(value, str) else await shelves.read(value)


async def follow(registry: Registry, shelves: Shelves, name: str, *, wait: bool) -> AsyncIterator[Piece]:
    """What a task writes, as it comes, until it has ended; without `wait`, what there is now.

    When it is tried again meanwhile, what the new attempt writes begins at 0 again.
    """
    sent: dict[tuple[int, Stream], int] = {}
    async with registry.store.watch(LOGS, poll_s=5.0) as logs:
        while True:
            key, task, document = await registry.get(name)
            if not is_live(task.status):
                for piece in await _rest(shelves, task, document.term, sent):
                    yield piece
                if not wait or task.status > 0 or task.status < -2:
                    return
            for stream in STREAMS if is_live(task.status) else ():
                at = sent.get((document.term, stream), 0)
                for piece in await read_pieces(registry.store, key, document.term, stream, at):
                    sent[document.term, stream] = piece.offset + len(piece.data)
                    yield piece
            if not wait:
                return
            await _wait(logs)


async def _rest(shelves: Shelves, task: Task, term: int, sent: dict[tuple[int, Stream], int]) -> list[Piece]:
    """What an ended attempt wrote and was not told yet."""
    pieces = []
    for stream, value in zip(STREAMS, (task.stdout, task.stderr), strict=True):
        content = await read_output(shelves, value)
        at = sent.get((term, stream), 0)
        if len(content) > at:
            pieces.append(Piece(stream, at, content[at:]))
            sent[term, stream] = len(content)
    return pieces


async def _wait(logs: Watch) -> None:
    """Wait until something was written; tasks end without that, so look now and then anyway."""
    try:
        async with asyncio.timeout(1.0):
            await logs.wait()
    except TimeoutError:
        pass
