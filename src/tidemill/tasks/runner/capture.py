"""The two files that catch what a child writes, as the pool has them."""

import os
from pathlib import Path

from tidemill.tasks.runner.job import SMALL, Output, Stream

_TAIL = 1024 * 1024
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")


class Capture:
    """Made for one child. Ends with `take` or `discard`. Raises OSError when the files cannot be made."""

    def __init__(self, folder: Path, name: str) -> None:
        self._paths = [folder / f"{name}.{stream}" for stream in STREAMS]
        self.fds: list[int] = []
        self._told = [0, 0]
        try:
            for path in self._paths:
                self.fds.append(os.open(path, _FLAGS, 0o600))
        except OSError:
            self.discard()
            raise

    def rewind(self) -> None:
        """Another job begins: nothing of it has been told."""
        self._told = [0, 0]

    def size(self) -> int:
        return sum(os.fstat(fd).st_size for fd in self.fds)

    def tail(self) -> list[tuple[Stream, int, bytes]]:
        """What came since the last look, or the next part of it if it is much, with where it begins."""
        found: list[tuple[Stream, int, bytes]] = []
        for at, stream in enumerate(STREAMS):
            offset = self._told[at]
            if content := os.pread(self.fds[at], _TAIL, offset):
                found.append((stream, offset, content))
                self._told[at] += len(content)
        return found

    def append(self, *contents: bytes) -> None:
        """Add to both what was not printed but answered. Raises OSError when the disk is full."""
        for fd, content in zip(self.fds, contents, strict=True):
            view = memoryview(content)
            while view:
                view = view[os.write(fd, view) :]

    def take(self) -> tuple[Output, Output]:
        """All that was written, once nobody writes any more. Files of little are deleted."""
        outputs = []
        for fd, path in zip(self.fds, self._paths, strict=True):
            size = os.fstat(fd).st_size
            if size > SMALL:
                outputs.append(Output(size, None, path))
            else:
                outputs.append(Output(size, os.pread(fd, SMALL, 0) if size else b""))
                path.unlink(missing_ok=True)
            os.close(fd)
        self.fds = []
        return outputs[0], outputs[1]

    def discard(self) -> None:
        """Delete both. May be called twice."""
        for fd in self.fds:
            os.close(fd)
        self.fds = []
        for path in self._paths:
            path.unlink(missing_ok=True)
