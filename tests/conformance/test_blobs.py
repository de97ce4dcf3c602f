"""All cases live in `tidemill.store.testing.blobs`; this file only picks the backends."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidemill.store.blobs import Blobs, open_blobs
from tidemill.store.blobs.local import LocalShelf
from tidemill.store.testing.blobs import BlobSuite


@dataclass
class FolderRig:
    blobs: Blobs

    def path(self, name: str) -> Path:
        assert isinstance(self.blobs.shelf, LocalShelf)
        return self.blobs.shelf.path(name)

    def flip(self, name: str, offset: int) -> None:
        with self.path(name).open("r+b") as file:
            at = file.seek(offset, os.SEEK_END if offset < 0 else os.SEEK_SET)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1]))

    def cut(self, name: str, size: int) -> None:
        os.truncate(self.path(name), size)


class TestFolder(BlobSuite):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> FolderRig:
        return FolderRig(open_blobs(tmp_path / "blobs", create=True))
