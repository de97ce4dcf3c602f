"""Blobs as memory: each block is checked the first time it is touched."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tidemill.store.blobs.errors import BlobDamaged
from tidemill.store.blobs.format import Blocks
from tidemill.store.blobs.shelf import Bytes

Mend = Callable[[int], Bytes]
"""Given the number of a damaged block, the same content from a place where that block is whole."""


class Mapped:
    """The content of a blob in memory that the operating system fills on demand.

    Safe to share between threads. Views stay valid after `close`, and after the blob is deleted or
    evicted: the memory goes away with the last of them. Damage to a block after its check goes unseen.
    """

    def __init__(self, content: Bytes, blocks: Blocks, mend: Mend | None = None) -> None:
        self._blocks = blocks
        self._mend = mend
        self._mending = threading.Lock()
        # One object, so that a mended content never meets the marks of the old one.
        self._pages: tuple[memoryview, bytearray] | None = self._fresh(content)

    @property
    def size(self) -> int:
        return self._blocks.size

    def view(self, offset: int = 0, length: int | None = None, *, check: bool = True) -> memoryview:
        """The bytes there (by default, to the end), read-only and without a copy.

        Raises `BlobDamaged` if a touched block is damaged, `ValueError` beyond the end or once closed.
        Without `check` no block is touched yet, and damage is for the caller to find: by a checked view
        of the same bytes at a better time.
        """
        length = self.size - offset if length is None else length
        if offset < 0 or length < 0 or offset + length > self.size:
            raise ValueError(f"{length} bytes at {offset} are not within the blob's {self.size}")
        for index in self._blocks.touched(offset, length if check else 0):
            try:
                self._check(index)
            except BlobDamaged:
                if self._mend is None:
                    raise
                self._replace(index, self._mend)
                return self.view(offset, length)
        return self._open_pages()[0][offset : offset + length]

    def close(self) -> None:
        """Let go of the memory, as far as no view holds on to it. Safe to repeat."""
        self._pages = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def _check(self, index: int) -> None:
        content, checked = self._open_pages()
        if not checked[index]:
            start, stop = self._blocks.bounds(index)
            self._blocks.check(index, content[start:stop])
            checked[index] = True

    def _replace(self, index: int, mend: Mend) -> None:
        with self._mending:
            try:
                self._check(index)  # another thread may have mended it meanwhile
            except BlobDamaged:
                pages = self._fresh(mend(index))
                start, stop = self._blocks.bounds(index)
                self._blocks.check(index, pages[0][start:stop])  # mended in vain: do not try for ever
                self._pages = pages

    def _fresh(self, content: Bytes) -> tuple[memoryview, bytearray]:
        view = memoryview(content).toreadonly()
        return view, bytearray(len(self._blocks.touched(0, self.size)))

    def _open_pages(self) -> tuple[memoryview, bytearray]:
        if self._pages is None:
            raise ValueError("the mapped blob is closed")
        return self._pages
