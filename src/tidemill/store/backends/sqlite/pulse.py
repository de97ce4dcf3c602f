"""How processes that share a file tell each other that a collection changed.

SQLite can say that *something* changed (`data_version`), but every renewal of every lease is a change,
and to find out that nothing else happened would cost a query each time. So beside the database lies
a page of shared memory with one cell per collection, as `-shm` lies beside it for SQLite itself. A
writer marks the cell after its commit; a watcher looks at the page a few times a second, which costs
no system call. A mark is lost when a writer dies right after its commit: `data_version` finds that.
"""

import mmap
import os
import zlib
from pathlib import Path

from tidemill.base.ids import new_nonce

_CELLS = 512
_SIZE = 8 * _CELLS


def cell_of(name: str) -> int:
    return zlib.crc32(name.encode()) % _CELLS


class Pulse:
    """The page. Two collections may share a cell; then each wakes the other's watchers too."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.truncate(descriptor, _SIZE)
            self._page = mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)
        self._seen = self._page[:]

    def mark(self, name: str) -> None:
        """Say that a collection changed. Our own watchers are not told."""
        at = 8 * cell_of(name)
        self._page[at : at + 8] = new_nonce().to_bytes(8, "little")
        self._seen = self._seen[:at] + self._page[at : at + 8] + self._seen[at + 8 :]

    def moved(self) -> set[int]:
        """The cells that others marked since the last call."""
        page = self._page[:]
        before, self._seen = self._seen, page
        if page == before:
            return set()
        return {at for at in range(_CELLS) if page[8 * at : 8 * at + 8] != before[8 * at : 8 * at + 8]}

    def close(self) -> None:
        self._page.close()
