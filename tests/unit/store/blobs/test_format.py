import struct
import zlib
from pathlib import Path

import pytest

from tidemill.store.blobs import BlobDamaged, BlobFormat, BlobRef, Blobs, open_blobs
from tidemill.store.blobs.format import BLOCK_BYTES, stored_bytes
from tidemill.store.blobs.local import LocalShelf


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES, BLOCK_BYTES + 1])
def test_the_stored_size_follows_from_the_size(tmp_path: Path, size: int) -> None:
    blobs = open_blobs(tmp_path, create=True)
    blobs.put("a", b"\0" * size)

    assert [entry.stored_bytes for entry in blobs.entries()] == [stored_bytes(size)]


def test_a_blob_of_a_newer_format_is_refused_by_its_format(tmp_path: Path) -> None:
    shelf = LocalShelf(tmp_path)
    shelf.prepare()
    footer = struct.pack("<QI", 0, 2)
    shelf.path("a").write_bytes(footer + struct.pack("<I8s", zlib.crc32(footer), b"tidemill"))

    with pytest.raises(BlobFormat, match="'a' has format 2; this release reads format 1"):
        Blobs(shelf).find("a")
    with pytest.raises(BlobFormat):
        Blobs(shelf).read(BlobRef(0, BlobRef.inline(b"").digest, "a"))


def test_inserted_bytes_are_damage_also_without_a_reference(tmp_path: Path) -> None:
    shelf = LocalShelf(tmp_path)
    shelf.prepare()
    Blobs(shelf).put("a", b"content")
    shelf.path("a").write_bytes(b"more " + shelf.path("a").read_bytes())

    with pytest.raises(BlobDamaged, match="stored bytes instead of"):
        Blobs(shelf).find("a")


def test_the_digest_is_that_of_the_written_format() -> None:
    # Documents carry these: a change of the format must not pass for the same format.
    assert BlobRef.inline(b"").digest == (
        "1-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )
    assert BlobRef.inline(b"tidemill").digest == (
        "1-2bb4e2d5d8d801c9e31983b89a2a7f8d96fc9016bc7ffb40c60e898e7caefb07"
    )
