"""Blobs on a shelf: every promise about digests, inline content and sweeping, whatever the shelf."""

import io
import itertools
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from tidemill.store.blobs.errors import BlobMissing
from tidemill.store.blobs.format import BLOCK_BYTES, Blocks, hash_content, read_blocks
from tidemill.store.blobs.mapped import Mapped
from tidemill.store.blobs.name import check_name
from tidemill.store.blobs.ref import INLINE_LIMIT, BlobRef
from tidemill.store.blobs.shelf import Bytes, Entry, Shelf, Stored
from tidemill.store.blobs.stream import BlobReader, BlobWriter


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep removed: names nobody refers to, and drafts that their writers abandoned."""

    names: tuple[str, ...]
    drafts: int


@dataclass(frozen=True, slots=True)
class Blobs:
    """Immutable content under names that callers choose. Can be pickled; safe between threads."""

    shelf: Shelf

    def put(self, name: str, source: Bytes | BinaryIO | Iterable[bytes], *, inline: bool = False) -> BlobRef:
        """Publish the content under the name, durable on return.

        The same content again is a success that makes the blob young again; other content under a
        published name raises `BlobExists`. With `inline`, content up to `INLINE_LIMIT` is returned
        inside the reference and nothing is stored. On any error nothing is visible.
        """
        check_name(name)
        chunks = _chunks(source)
        if inline:
            head, chunks = _split(chunks, INLINE_LIMIT)
            if len(head) <= INLINE_LIMIT:
                return BlobRef.inline(head)
        with self.create(name) as writer:
            for chunk in chunks:
                writer.write(chunk)
        return writer.ref

    def create(self, name: str, *, durable: bool = True) -> BlobWriter:
        """A file to write the blob to. It is published as `put` does when its `with` block ends well.

        Without `durable` it is published at once, and a power cut may lose or damage it until `sync`.
        """
        return BlobWriter(check_name(name), self.shelf.create(name, durable=durable))

    def sync(self, names: Iterable[str]) -> None:
        """Make blobs that were created without `durable` durable. Safe to repeat.

        Raises `BlobMissing` when one is not there.
        """
        self.shelf.sync([check_name(name) for name in names])

    def open(self, ref: BlobRef) -> BinaryIO:
        """The content as a seekable file.

        Raises `BlobMissing` here, and `BlobDamaged` here or from a read that meets a damaged block:
        no wrong or missing byte is ever handed out.
        """
        if ref.content is not None:
            return io.BytesIO(_inline(ref)[0])
        stored, blocks = self._open(ref)
        return io.BufferedReader(BlobReader(stored, blocks), BLOCK_BYTES)

    def read(self, ref: BlobRef) -> bytes:
        """The whole content, checked."""
        with self.open(ref) as reader:
            return reader.read()

    def read_range(self, ref: BlobRef, offset: int, length: int) -> bytes:
        """Exactly these bytes, checked. Raises `ValueError` if they are not all within the content."""
        if offset < 0 or length < 0 or offset + length > ref.size:
            raise ValueError(f"{length} bytes at {offset} are not within the blob's {ref.size}")
        with self.open(ref) as reader:
            reader.seek(offset)
            return reader.read(length)

    def map(self, ref: BlobRef) -> Mapped:
        """The content as memory, each block checked when first touched.

        On a remote shelf this reads the whole content; `BlobCache.map` keeps it on the local disk.
        """
        if ref.content is not None:
            return Mapped(*_inline(ref))
        stored, blocks = self._open(ref)
        with stored:
            return Mapped(stored.map(ref.size), blocks)

    def find(self, name: str) -> BlobRef | None:
        """The reference of what is published under the name, as it says of itself; None if nothing is."""
        try:
            with self.shelf.open(check_name(name)) as stored:
                blocks = read_blocks(name, stored)
        except BlobMissing:
            return None
        return BlobRef(blocks.size, blocks.digest, name)

    def entries(self, under: str = "") -> Iterator[Entry]:
        """Everything published below the folder `under` ("" is all), in no order."""
        return self.shelf.entries(check_name(under) if under else "")

    def delete(self, name: str) -> None:
        """Delete the name. Who has it open can go on reading. Safe to repeat."""
        self.shelf.delete(check_name(name))

    def now(self) -> float:
        """The time by the clock that dates what is published: the one to sweep by."""
        return self.shelf.now()

    def sweep(self, referred: Container[str], *, grace_s: float, now: float, under: str = "") -> Swept:
        """Delete the names below `under` that nobody refers to and that are older than the grace age.

        `now` is in seconds since the epoch, best from `now()`. Whoever publishes a blob has the grace age
        to refer to it; publishing it again starts a new one, also while a sweep runs. Drafts, which have no
        name yet, go when they are older than the grace age and their writer is gone.
        """
        older_than = now - grace_s
        swept = tuple(
            entry.name
            for entry in self.entries(under)
            if entry.published_at < older_than
            and entry.name not in referred
            and self.shelf.delete(entry.name, older_than)
        )
        return Swept(swept, self.shelf.tidy(older_than))

    def _open(self, ref: BlobRef) -> tuple[Stored, Blocks]:
        name = check_name(ref.name or "")
        stored = self.shelf.open(name)
        try:
            blocks = read_blocks(name, stored)
            blocks.expect(ref.size, ref.digest)
        except BaseException:
            stored.close()
            raise
        return stored, blocks


def _inline(ref: BlobRef) -> tuple[bytes, Blocks]:
    content = ref.content or b""
    blocks = hash_content("(inline)", content)
    blocks.expect(ref.size, ref.digest)
    return content, blocks


def _chunks(source: Bytes | BinaryIO | Iterable[bytes]) -> Iterator[Bytes]:
    if isinstance(source, bytes | bytearray | memoryview):
        return iter((source,))
    if hasattr(source, "read"):
        return iter(lambda: source.read(BLOCK_BYTES), b"")
    return iter(source)


def _split(chunks: Iterator[Bytes], limit: int) -> tuple[bytes, Iterator[Bytes]]:
    """The first chunks, just past the limit or all there are, and a source of all chunks again."""
    head: list[Bytes] = []
    size = 0
    while size <= limit and (chunk := next(chunks, None)) is not None:
        head.append(chunk)
        size += memoryview(chunk).nbytes
    return b"".join(head), itertools.chain(head, chunks)
