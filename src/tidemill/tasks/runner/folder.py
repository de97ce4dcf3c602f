"""The folder of one pool. When its process is killed, the next pool beside it clears it away."""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

LOCK = ".runners.lock"
"""Locked as long as somebody has the folder; the system lets go of the lock when that process dies."""


class Folder:
    """Holds the folder, which is empty at first, and clears away others that nobody holds any more.

    Raises BlockingIOError when another pool has it, and other OSErrors when it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        for lock in path.parent.glob(f"*/{LOCK}"):
            if not _clear(lock) and lock.parent == path:
                raise BlockingIOError(f"{path} belongs to another pool")
        # It is locked before it has its name, so that nobody clears the folder away in between.
        self._lock, name = tempfile.mkstemp(prefix=LOCK, dir=path.parent)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        path.mkdir(exist_ok=True)
        Path(name).rename(path / LOCK)

    def release(self) -> None:
        """Delete the folder; if outputs are in it, which somebody still needs, its successor does."""
        if [path.name for path in self.path.glob("*") if path.name != LOCK]:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _clear(lock: Path) -> bool:
    """Delete the lock's folder, unless somebody holds it; whether it is gone."""
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        shutil.rmtree(lock.parent, ignore_errors=True)
        return True
    finally:
        os.close(fd)
