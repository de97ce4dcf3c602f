"""Results that come in pieces: each goes to a blob as it arrives, and is kept only if it is whole."""

import asyncio
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any

from tidemill.store.blobs import BlobWriter
from tidemill.tasks.blobs import Shelves, inline_value
from tidemill.worker.wire import INLINE_BYTES, BadMessage, TaskRef


@dataclass
class _Upload:
    ref: TaskRef
    size: int
    writer: BlobWriter | None
    small: bytearray = field(default_factory=bytearray)
    received: int = 0
    digest: Any = field(default_factory=hashlib.sha256)


class Uploads:
    """The streams that a worker has begun on one connection. They end with it, and leave nothing."""

    def __init__(self, shelves: Shelves) -> None:
        self._shelves = shelves
        self._open: dict[int, _Upload] = {}

    async def begin(self, stream: int, ref: TaskRef, size: int) -> None:
        """A result of so many bytes will follow. Raises `BadMessage` for a stream that is open already."""
        if stream in self._open:
            raise BadMessage(f"stream {stream} has begun already")
        writer = None
        if size > INLINE_BYTES:
            blobs = await self._shelves.open()
            writer = await asyncio.to_thread(blobs.create, result_name(ref))
        self._open[stream] = _Upload(ref, size, writer)

    async def put(self, stream: int, content: memoryview) -> None:
        """Some of it. Raises `BadMessage` for a stream that nobody began, and for more than was told."""
        upload = self._open.get(stream)
        if upload is None:
            raise BadMessage(f"stream {stream} has not begun")
        upload.received += len(content)
        if upload.received > upload.size:
            raise BadMessage(f"stream {stream} has more than its {upload.size} bytes")
        if upload.writer is None:
            upload.digest.update(content)
            upload.small += content
        else:
            await asyncio.to_thread(_write, upload, content)

    async def end(self, stream: int, digest: str) -> tuple[TaskRef, Any]:
        """Whose result it was, and the value that stands for it. Raises `BadMessage` if it is not whole."""
        upload = self._open.pop(stream, None)
        if upload is None:
            raise BadMessage(f"stream {stream} has not begun")
        try:
            if upload.received != upload.size:
                raise BadMessage(f"stream {stream} ended after {upload.received} of {upload.size} bytes")
            if upload.digest.hexdigest() != digest:
                raise BadMessage(f"stream {stream} does not have the digest that was told")
        except BadMessage:
            _discard(upload)
            raise
        if upload.writer is None:
            return upload.ref, inline_value(bytes(upload.small))
        ref = await asyncio.to_thread(upload.writer.publish)
        return upload.ref, ref.to_json()

    def discard(self) -> None:
        """Forget what has not come whole."""
        for upload in self._open.values():
            _discard(upload)
        self._open.clear()


def result_name(ref: TaskRef) -> str:
    """A name for the result of an attempt. Each time another: a result that is sent again may differ."""
    return f"tasks/{ref.task}/{ref.fence}-{secrets.token_hex(4)}/result"


def _write(upload: _Upload, content: memoryview) -> None:
    upload.digest.update(content)
    assert upload.writer is not None
    upload.writer.write(content)


def _discard(upload: _Upload) -> None:
    if upload.writer is not None:
        upload.writer.close()
