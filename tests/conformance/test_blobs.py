"""All cases live in `tidemill.store.testing.blobs`; this file only picks the backends."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tidemill.store.blobs import Blobs, open_blobs
from tidemill.store.blobs.local import LocalShelf
from tidemill.store.blobs.s3 import S3Shelf
from tidemill.store.blobs.s3.download import MARK_BYTES
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


@dataclass
class BucketRig:
    blobs: Blobs

    def flip(self, name: str, offset: int) -> None:
        stored, mark = self._take(name)
        stored[offset] ^= 1
        self._put(name, bytes(stored) + mark)

    def cut(self, name: str, size: int) -> None:
        self._put(name, bytes(self._take(name)[0][:size]))

    def _take(self, name: str) -> tuple[bytearray, bytes]:
        shelf = self._shelf()
        with shelf.bucket.call("get_object", "take", Key=shelf.key(name))["Body"] as body:
            data = body.read()
        return bytearray(data[:-MARK_BYTES]), data[-MARK_BYTES:]

    def _put(self, name: str, data: bytes) -> None:
        shelf = self._shelf()
        shelf.bucket.call("put_object", "put", Key=shelf.key(name), Body=data)

    def _shelf(self) -> S3Shelf:
        assert isinstance(self.blobs.shelf, S3Shelf)
        return self.blobs.shelf


class TestBucket(BlobSuite):
    @pytest.fixture
    def rig(self, s3_address: str) -> BucketRig:
        return BucketRig(open_blobs(s3_address, create=True))
