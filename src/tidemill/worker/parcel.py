"""Payloads and results on their way: small ones in memory, others in files, read and written in pieces."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tidemill.worker.errors import PayloadDamaged
from tidemill.worker.wire import INLINE_BYTES


class Parcel:
    """A task's payload, as it arrives, and a folder of the task's own. Both are made when first needed."""

    def __init__(self, within: Path) -> None:
        self._within = within
        self._folder: Path | None = None
        self._small = bytearray()
        self._file: BinaryIO | None = None
        self._path: Path | None = None
        self._size = 0
        self._digest = hashlib.sha256()
        self._damage: str | None = None

    @property
    def folder(self) -> Path:
        """A folder that lasts as long as the task."""
        if self._folder is None:
            # Named by chance: a task's name comes from elsewhere, and need not be fit for a path.
            self._folder = Path(tempfile.mkdtemp(dir=self._within))
        return self._folder

    def write(self, content: bytes | memoryview) -> None:
        """Add a piece. Where that fails, as on a full disk, the payload is damaged."""
        self._size += len(content)
        self._digest.update(content)
        try:
            if self._file is None and self._size > INLINE_BYTES:
                self._spill()
            if self._file is None:
                self._small += content
            else:
                self._file.write(content)
        except OSError as error:
            self._damage = f"the payload cannot be kept: {error}"

    def check(self, size: int | None, digest: str) -> None:
        """All has come. Whether that is what was sent is told by `require_whole`."""
        if self._damage is not None:
            return
        if size is not None and size != self._size:
            self._damage = f"the payload has {self._size} bytes; {size} were announced"
        elif digest != self._digest.hexdigest():
            self._damage = "the payload does not have the digest that was sent with it"

    def require_whole(self) -> None:
        """Raises `PayloadDamaged` for a payload that is not what was sent."""
        if self._damage is not None:
            raise PayloadDamaged(self._damage)

    def content(self) -> bytes:
        """The payload, whole in memory."""
        return bytes(self._small) if self._path is None else self.path().read_bytes()

    def path(self) -> Path:
        """The file of the payload; a small one is written when first asked for."""
        if self._file is None and self._path is None:
            self._spill()
        if self._file is not None:
            self._file.close()
            self._file = None
        assert self._path is not None
        return self._path

    def discard(self) -> None:
        """Remove the payload and the folder. A second call changes nothing."""
        if self._file is not None:
            self._file.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _spill(self) -> None:
        self._path = self.folder / "payload"
        self._file = self._path.open("wb")
        self._file.write(self._small)
        self._small.clear()


def pieces(content: bytes | Path, size: int) -> Iterator[bytes]:
    """The content in pieces of that size. Raises `OSError` for a file that cannot be read any more."""
    if isinstance(content, bytes):
        for start in range(0, len(content), size):
            yield content[start : start + size]
        return
    with content.open("rb") as file:
        while piece := file.read(size):
            yield piece
