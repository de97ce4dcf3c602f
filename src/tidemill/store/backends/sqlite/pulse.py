"""How processes that share a file tell each other that a collection changed.

SQLite can say that *something* changed (`data_version`), but every renewal of every lease is a change,
and to find out that nothing else happened would cost a query each time. So beside the database lies
a page with one cell per collection, as `-shm` lies beside it for SQLite itself. A writer marks the cell
after its commit, and the kernel wakes the others, who compare the page with what they saw last. Where
the kernel does not, they look a few times a second. A mark is lost when a writer dies right after its
commit; `data_version`, asked now and then, finds that.
"""

import asyncio
import mmap
import os
import time
import zlib
from collections.abc import Iterable
from pathlib import Path

from tidemill.store.backends.sqlite.inotify import drain, watch_file

LOOK_S = 0.05
_CELLS = 512
_CELL = 8
_SIZE = _CELL * _CELLS


def cell_of(name: str) -> int:
    return zlib.crc32(name.encode()) % _CELLS


def open_pulse(path: Path) -> "Pulse | None":
    """The page of a database; None where this process may not write beside it."""
    try:
        return Pulse(path)
    except OSError:
        return None


class Pulse:
    """The page. Two collections may share a cell; then each wakes the other's watchers too."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.truncate(self._file, _SIZE)
        self._page = mmap.mmap(self._file, _SIZE, prot=mmap.PROT_READ)
        self._seen = self._page[:]
        self._told = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._descriptor: int | None = None

    def mark(self, name: str) -> None:
        """Say that a collection changed. Our own watchers are not told.

        It is committed by then, so a disk that takes no mark is nobody's error: others find out later.
        """
        at, mark = _CELL * cell_of(name), time.monotonic_ns().to_bytes(_CELL, "little")
        try:
            os.pwrite(self._file, mark, at)
        except OSError:
            return
        self._seen = self._seen[:at] + mark + self._seen[at + _CELL :]

    def moved(self, cells: Iterable[int]) -> set[int]:
        """Those of the cells that others marked since the last call."""
        page = self._page[:]
        before, self._seen = self._seen, page
        if page == before:
            return set()
        return {
            at for at in cells if page[_CELL * at : _CELL * (at + 1)] != before[_CELL * at : _CELL * (at + 1)]
        }

    def listen(self) -> None:
        """Begin to hear of marks, on this event loop. What was marked before shows in `moved`."""
        self._told = asyncio.Event()
        self._descriptor = watch_file(self._path)
        if self._descriptor is not None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._descriptor, self._hear)

    async def wait(self, timeout_s: float) -> None:
        """Return when somebody may have marked a cell, or when the time is up."""
        if self._descriptor is None:
            await asyncio.sleep(min(timeout_s, LOOK_S))
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._told.wait()
        except TimeoutError:
            pass
        self._told.clear()

    def close(self) -> None:
        if self._descriptor is not None and self._loop is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None
        self._page.close()
        os.close(self._file)

    def _hear(self) -> None:
        if self._descriptor is not None:
            drain(self._descriptor)
            self._told.set()
