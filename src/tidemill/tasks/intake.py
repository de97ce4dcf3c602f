"""Content that arrives piece by piece, of a size that nobody knows yet, for a document or a blob."""

import asyncio
from collections.abc import Callable
from typing import Any, Self, TypeVar

from tidemill.base.log import get_logger
from tidemill.store.blobs import INLINE_LIMIT, BlobError, BlobWriter
from tidemill.tasks.blobs import Shelves, inline_value

log = get_logger("tidemill.intake")

GATHERED = 1024 * 1024
"""How much is gathered before it is written: about as much as one content takes of the memory."""

T = TypeVar("T")


class Intake:
    """One content, under a name that nobody else uses: `async with Intake(shelves, name) as intake`.

    At the end of the block nothing is left of it, unless `keep` was called.
    """

    def __init__(self, shelves: Shelves, name: str) -> None:
        self._shelves = shelves
        self._name = name
        self._gathered = bytearray()
        self._writer: BlobWriter | None = None
        self._busy: asyncio.Future[Any] | None = None
        self._kept = False
        self.size = 0

    async def write(self, piece: bytes) -> None:
        """Take the next piece. Raises a `BlobError` when it cannot be kept."""
        self._gathered += piece
        self.size += len(piece)
        if len(self._gathered) >= GATHERED:
            await self._flush()

    async def finish(self) -> Any:
        """The whole, durable, as a document carries it: inside when it is small, else a blob's reference."""
        if self.size <= INLINE_LIMIT:
            return inline_value(bytes(self._gathered))
        writer = await self._flush()
        ref = await self._in_thread(writer.publish)
        return ref.to_json()

    def keep(self) -> None:
        """A document refers to it, or may: leave it where it is."""
        self._kept = True

    async def _flush(self) -> BlobWriter:
        if self._writer is None:
            blobs = await self._shelves.open()
            self._writer = await self._in_thread(lambda: blobs.create(self._name))
        writer, piece = self._writer, self._gathered
        self._gathered = bytearray()
        await self._in_thread(lambda: writer.write(piece))
        return writer

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Whoever is cancelled meanwhile leaves the work to come to its end: a file is not to be closed
        under it."""
        self._busy = busy = asyncio.ensure_future(asyncio.to_thread(work))
        return await asyncio.shield(busy)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._busy is not None:
            await asyncio.wait([self._busy])
        if self._writer is None or self._kept:
            return
        try:
            await asyncio.to_thread(self._writer.close)
            blobs = await self._shelves.open()
            await asyncio.to_thread(blobs.delete, self._name)
        except (BlobError, OSError) as error:
            log.warning("blob.left", name=self._name, error=str(error))
