"""A pipeline's folder in the hands of one process."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from tidemill.pipeline.errors import AlreadyOpen

LOCK = "owner.lock"


class FolderLock:
    """An operating-system lock on a folder: gone when its process is, however that ends.

    Raises `AlreadyOpen`, with the process that has it, when another object has the folder.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            process = os.read(self._fd, 100).decode(errors="replace").strip() or "unknown"
            self.release()
            whose = "this process" if process == str(os.getpid()) else f"process {process}"
            raise AlreadyOpen(f"{folder} is open in {whose}; close it there first") from error
        os.ftruncate(self._fd, 0)
        os.write(self._fd, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let others have the folder. Safe to repeat."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
