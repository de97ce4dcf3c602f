import io
import zipfile

import pytest

from tidemill.store.blobs import BlobNoSpace, BlobRef
from tidemill.store.blobs.format import BLOCK_BYTES
from tidemill.store.blobs.shelf import Bytes
from tidemill.store.blobs.stream import BlobWriter


class MemoryDraft:
    """A draft that has room for so many writes."""

    def __init__(self, room: int = 1000) -> None:
        self.room = room
        self.stored = bytearray()
        self.published: str | None = None
        self.discarded = False

    def write(self, data: Bytes) -> None:
        if not self.room:
            raise BlobNoSpace("full")
        self.room -= 1
        self.stored += data

    def publish(self, digest: str) -> None:
        self.published = digest

    def discard(self) -> None:
        self.discarded = True


def test_small_writes_are_gathered_into_blocks() -> None:
    draft = MemoryDraft()
    with BlobWriter("a", draft) as writer:
        for _ in range(BLOCK_BYTES // 64):
            writer.write(b"x" * 64)
        assert (1000 - draft.room, writer.tell()) == (1, BLOCK_BYTES)

    assert draft.published == writer.ref.digest


def test_a_writer_whose_write_failed_does_not_publish_even_if_the_caller_goes_on() -> None:
    draft = MemoryDraft(room=1)
    with BlobWriter("a", draft) as writer:
        writer.write(b"x" * BLOCK_BYTES)
        with pytest.raises(BlobNoSpace):
            writer.write(b"x" * BLOCK_BYTES)
        with pytest.raises(ValueError, match="closed"):
            writer.write(b"x")

    assert (draft.published, draft.discarded) == (None, True)


def test_a_publish_that_fails_discards() -> None:
    draft = MemoryDraft(room=0)
    with pytest.raises(BlobNoSpace):
        BlobWriter("a", draft).publish()
    assert draft.discarded


def test_a_lost_writer_discards() -> None:
    draft = MemoryDraft()
    BlobWriter("a", draft).write(b"x")

    assert (draft.published, draft.discarded) == (None, True)


def test_publishing_again_returns_the_same_reference() -> None:
    writer = BlobWriter("a", MemoryDraft())
    writer.write(b"content")
    ref = writer.publish()

    assert writer.publish() is ref
    assert ref == BlobRef(7, BlobRef.inline(b"content").digest, "a")


def test_the_standard_library_writes_to_it_as_to_a_file() -> None:
    draft = MemoryDraft()
    with BlobWriter("a", draft) as writer, zipfile.ZipFile(writer, "w") as archive:
        archive.writestr("inside", b"content")

    assert zipfile.ZipFile(io.BytesIO(draft.stored[: writer.ref.size])).read("inside") == b"content"
