"""References to files as documents carry them, and small files for those who run on an event loop."""

import asyncio
from typing import Protocol, Self

from msgspec import Struct

from tidemill.store.blobs import BlobRef, Blobs


class FileRef(Struct, frozen=True):
    """A blob that is not inline: a `BlobRef` of which nothing is null, as a store looks closely at nulls."""

    name: str
    size: int
    digest: str

    @classmethod
    def of(cls, blob: BlobRef) -> Self:
        return cls(blob.name or "", blob.size, blob.digest)

    @property
    def blob(self) -> BlobRef:
        return BlobRef(self.size, self.digest, self.name)


class Files(Protocol):
    """Small immutable files."""

    async def put(self, name: str, content: bytes) -> FileRef:
        """Publish, durable on return. The same content again is a success."""

    async def read(self, ref: FileRef) -> bytes: ...


class BlobFiles:
    """Files as blobs; the blocking calls run in threads."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def put(self, name: str, content: bytes) -> FileRef:
        return FileRef.of(await asyncio.to_thread(self._blobs.put, name, content))

    async def read(self, ref: FileRef) -> bytes:
        return await asyncio.to_thread(self._blobs.read, ref.blob)
