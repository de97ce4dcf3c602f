"""Where a cluster keeps what is too large for a document, and how a value finds its way there and back.

The address is a document that nodes write, so that whoever reaches the store finds the blobs.
"""

import asyncio
import base64
from typing import Any, BinaryIO

from tidemill.store import Collection, Conflict, Store
from tidemill.store.blobs import INLINE_LIMIT, BlobRef, Blobs, open_blobs
from tidemill.tasks.errors import BadTask

PLACES = Collection("places")
_BLOBS = "blobs"


async def announce_blobs(store: Store, url: str) -> None:
    """Say where blobs are, so that whoever submits finds them. The last to say it is right."""
    found = await store.get(PLACES, _BLOBS)
    try:
        if found is None:
            await store.create(PLACES, _BLOBS, {"url": url})
        elif found.body.get("url") != url:
            await store.replace(PLACES, _BLOBS, {"url": url}, expect=found.revision)
    except Conflict:
        pass  # somebody else just said it


class Shelves:
    """The cluster's blobs, opened when first needed: at `url`, or where a node said that they are."""

    def __init__(self, store: Store, url: str | None = None) -> None:
        self._store = store
        self._url = url
        self._blobs: Blobs | None = None

    async def open(self) -> Blobs:
        """Raises `BadTask` when no node has said yet where blobs are."""
        if self._blobs is None:
            url = self._url or await self._announced()
            self._blobs = await asyncio.to_thread(open_blobs, url, create=True)
        return self._blobs

    async def _announced(self) -> str:
        found = await self._store.get(PLACES, _BLOBS)
        if found is None:
            raise BadTask(
                f"this is larger than {INLINE_LIMIT:,} bytes, and no node has said where the cluster keeps "
                "that; start one"
            )
        return str(found.body["url"])

    async def put(self, name: str, content: bytes | BinaryIO, *, inline: bool = True) -> Any:
        """The content as a document carries it: inside when it is small, else as the reference of a blob."""
        if inline and isinstance(content, bytes) and len(content) <= INLINE_LIMIT:
            return inline_value(content)
        blobs = await self.open()
        ref = await asyncio.to_thread(blobs.put, name, content)
        return ref.to_json()

    async def read(self, value: Any) -> bytes:
        """The content again. Raises a `BlobError` when it cannot be had."""
        known = inline_content(value)
        if known is not None:
            return known
        blobs = await self.open()
        return await asyncio.to_thread(blobs.read, BlobRef.from_json(value))


def inline_value(content: bytes) -> Any:
    """Small content as a document carries it. Without a digest: the document is one's own guard."""
    return {"base64": base64.b64encode(content).decode()}


def inline_content(value: Any) -> bytes | None:
    """The content of what `inline_value` gave; None for the reference of a blob."""
    if isinstance(value, dict) and isinstance(value.get("base64"), str):
        return base64.b64decode(value["base64"])
    return None
