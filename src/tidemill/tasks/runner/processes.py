"""Processes as the kernel has them: who started whom, how large they are, what ended them."""

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from tidemill.tasks.runner.job import MB

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")
_HAS_CHILDREN = (_PROC / f"self/task/{os.getpid()}/children").exists()
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def adopt_orphans() -> None:
    """Become the parent of what descendants leave behind when they die; only Linux has that.

    So a process that detaches itself from its task, in a session of its own, still has a place in the tree.
    """
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Be killed when the parent dies; only Linux has that. For the moment between fork and exec."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)  # it died before we asked


def children_of(pid: int) -> list[int]:
    """The living and the unburied children of a process."""
    if not _HAS_CHILDREN:
        with suppress(psutil.Error):
            return [child.pid for child in psutil.Process(pid).children()]
        return []
    found: list[int] = []
    with suppress(OSError):
        for thread in (_PROC / str(pid) / "task").iterdir():
            with suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


def tree_mb(pid: int) -> int:
    """How much memory a process and its descendants take now, in MB."""
    total, todo = 0, [pid]
    while todo:
        one = todo.pop()
        with suppress(psutil.Error):
            total += psutil.Process(one).memory_info().rss
        todo += children_of(one)
    return total // MB


def kill_group(pid: int, number: int) -> None:
    """Signal the process group that a child of ours leads, or the child before it leads one."""
    with suppress(PermissionError):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def death_of(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exited with code {code} before it answered"
    try:
        return f"died of {signal.Signals(-code).name}"
    except ValueError:
        return f"died of signal {-code}"
