"""Content as an answer: what is small at once, what is large as it is read."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any, BinaryIO

from starlette.responses import Response, StreamingResponse

from tidemill.store.blobs import BlobRef
from tidemill.tasks.blobs import Shelves, inline_content

CHUNK_BYTES = 1024 * 1024
BYTES = "application/octet-stream"

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


async def content_answer(
    shelves: Shelves, value: Any, name: str | None = None, kind: str = BYTES
) -> Response:
    """The content that a document's value stands for; with a name, to be saved under it.

    Raises a `BlobError` when it cannot be had. A blob that proves damaged on the way breaks the answer off.
    """
    headers = {} if name is None else attachment(name)
    known = inline_content(value)
    if known is not None:
        return Response(known, media_type=kind, headers=headers)
    blobs, ref = await shelves.open(), BlobRef.from_json(value)
    file = await asyncio.to_thread(blobs.open, ref)
    headers["Content-Length"] = str(ref.size)
    return StreamingResponse(_read(file), media_type=kind, headers=headers)


def attachment(name: str) -> dict[str, str]:
    """What has a browser save an answer, under a name that every file system takes."""
    safe = _UNSAFE.sub("_", name).lstrip(".")[-150:] or "content"
    return {"Content-Disposition": f'attachment; filename="{safe}"'}


async def _read(file: BinaryIO) -> AsyncIterator[bytes]:
    try:
        while piece := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield piece
    finally:
        await asyncio.to_thread(file.close)
