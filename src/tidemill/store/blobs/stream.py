"""Blobs as files: a writer that publishes at its end, a reader that checks each block it hands out."""

import io
from types import TracebackType
from typing import TYPE_CHECKING

from tidemill.store.blobs.format import BLOCK_BYTES, Blocks, hash_block, trailer
from tidemill.store.blobs.ref import BlobRef
from tidemill.store.blobs.shelf import Bytes, Draft, Stored

if TYPE_CHECKING:
    from typing_extensions import Buffer


class BlobWriter(io.RawIOBase):
    """A binary file that becomes a blob, whole or not at all.

    Leaving its `with` block publishes it; an exception in the block, `close` without `publish`, or
    losing the object leaves nothing. Writes of any size are gathered into blocks.
    """

    def __init__(self, name: str, draft: Draft) -> None:
        self._name = name
        self._draft = draft
        self._gathered = bytearray()
        self._digests = bytearray()
        self._size = 0
        self._ref: BlobRef | None = None

    @property
    def ref(self) -> BlobRef:
        """The published blob. Raises `ValueError` before `publish`."""
        if self._ref is None:
            raise ValueError(f"blob {self._name!r} is not published")
        return self._ref

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: "Buffer", /) -> int:
        self._check_open()
        view = memoryview(data).cast("B")
        try:
            self._gather(view)
        except BaseException:
            self.close()  # part of it may be written: a caller who goes on must not publish that
            raise
        self._size += len(view)
        return len(view)

    def publish(self) -> BlobRef:
        """Make the blob visible and durable, and close. Repeating it returns the same reference.

        Raises `BlobExists` if the name holds other content; the same content counts as published.
        """
        if self._ref is None:
            self._check_open()
            try:
                if self._gathered:
                    self._flush_gathered()
                digests = bytes(self._digests)
                digest = Blocks(self._name, self._size, digests).digest
                self._draft.write(trailer(self._size, digests))
                self._draft.publish(digest)
                self._ref = BlobRef(self._size, digest, self._name)
            finally:
                self.close()
        return self._ref

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._draft.discard()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if kind is None and not self.closed:
            self.publish()
        self.close()

    def _gather(self, view: memoryview) -> None:
        while view:
            if not self._gathered and len(view) >= BLOCK_BYTES:
                taken = BLOCK_BYTES
                self._write_block(view[:taken])
            else:
                taken = min(len(view), BLOCK_BYTES - len(self._gathered))
                self._gathered += view[:taken]
                if len(self._gathered) == BLOCK_BYTES:
                    self._flush_gathered()
            view = view[taken:]

    def _flush_gathered(self) -> None:
        self._write_block(self._gathered)
        self._gathered = bytearray()

    def _write_block(self, block: Bytes) -> None:
        self._digests += hash_block(block)
        self._draft.write(block)

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError(f"the writer of blob {self._name!r} is closed")


class BlobReader(io.RawIOBase):
    """The content of a blob as a seekable binary file. Raises `BlobDamaged` instead of a wrong byte."""

    def __init__(self, stored: Stored, blocks: Blocks) -> None:
        self._stored = stored
        self._blocks = blocks
        self._position = 0
        self._at = -1  # the number of the block in `_block`
        self._block = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._blocks.size}[whence]
        if base + offset < 0:
            raise ValueError(f"seek to {base + offset}, before the start")
        self._position = base + offset
        return self._position

    def readinto(self, target: "Buffer", /) -> int:
        view = memoryview(target).cast("B")
        part = self._rest_of_block()[: len(view)]
        view[: len(part)] = part
        self._position += len(part)
        return len(part)

    def readall(self) -> bytes:
        """The rest, in one read and without a copy when it is the whole."""
        self._check_open()
        skipped = self._position % BLOCK_BYTES
        start = self._position - skipped
        length = max(0, self._blocks.size - start)
        content = self._stored.read_at(start, length)
        for index in self._blocks.touched(start, length):
            first, last = self._blocks.bounds(index)
            self._blocks.check(index, memoryview(content)[first - start : last - start])
        self._position = max(self._position, self._blocks.size)
        return content[skipped:]

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._stored.close()

    def _rest_of_block(self) -> memoryview:
        """The checked bytes from the position to the end of its block; none at the end of the blob."""
        self._check_open()
        if self._position >= self._blocks.size:
            return memoryview(b"")
        index = self._position // BLOCK_BYTES
        start, stop = self._blocks.bounds(index)
        if index != self._at:
            block = self._stored.read_at(start, stop - start)
            self._blocks.check(index, block)
            self._at, self._block = index, block
        return memoryview(self._block)[self._position - start :]

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError(f"the reader of blob {self._blocks.name!r} is closed")
