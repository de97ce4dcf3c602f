"""The results of a batch as one archive, made as it is read: a zip file of bounded memory."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import msgspec

from tidemill.app.jobs import job_state
from tidemill.store import Document, Store, eq
from tidemill.store.blobs import BlobRef
from tidemill.tasks.blobs import Shelves, inline_content
from tidemill.tasks.status import SUCCEEDED
from tidemill.tasks.task import TASKS, task_of

FAILED = "failed.json"
CHUNK_BYTES = 1024 * 1024
PAGE = 50
LARGE = 2**31
"""From this size on an entry needs the larger format."""

_UNSAFE = re.compile(r'[\x00-\x1f\x7f\\:*?"<>|]')


async def tasks_of(store: Store, queue: str, number: int) -> AsyncIterator[Document]:
    """The tasks of a batch in the order of their arrival."""
    cursor: str | None = None
    while True:
        where = (eq("queue", queue), eq("batch", number))
        page = await store.find(TASKS, *where, sort=("turn",), limit=PAGE, cursor=cursor)
        for document in page.documents:
            yield document
        if (cursor := page.cursor) is None:
            return


async def archive(store: Store, shelves: Shelves, queue: str, number: int) -> AsyncIterator[bytes]:
    """A zip file of the results, each under its job's key, and `failed.json` about jobs that have none.

    Raises a `BlobError` where a result cannot be had: what was read until then is then no zip file.
    """
    sink, names = _Sink(), Names()
    with ZipFile(sink, "w", ZIP_STORED) as file:
        failed: list[dict[str, Any]] = []
        async for document in tasks_of(store, queue, number):
            task = task_of(document)
            if task.status != SUCCEEDED or task.result is None:
                failed.append(_failure(document))
                continue
            ref = _ref(task.result)
            name, large = ZipInfo(names.name(task.key or document.key)), ref.size >= LARGE
            with file.open(name, "w", force_zip64=large) as entry:
                async for piece in _content(shelves, ref):
                    entry.write(piece)
                    yield sink.take()
        file.writestr(FAILED, msgspec.json.encode(failed))
    yield sink.take()


class Names:
    """Names for the entries of an archive: no two alike, and none that leads out of the folder it is
    unpacked in."""

    def __init__(self) -> None:
        self._given = {FAILED}

    def name(self, key: str) -> str:
        parts = [_UNSAFE.sub("_", part) for part in key.split("/") if part not in ("", ".", "..")]
        wanted = name = "/".join(parts) or "job"
        copy = 1
        while name.lower() in self._given:
            copy += 1
            name = f"{wanted}-{copy}"
        self._given.add(name.lower())
        return name


class _Sink:
    """Where the archive is written; what has come so far is taken away."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes) -> int:
        self._written += data
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def take(self) -> bytes:
        written, self._written = bytes(self._written), bytearray()
        return written


def _ref(value: Any) -> BlobRef:
    known = inline_content(value)
    return BlobRef.from_json(value) if known is None else BlobRef.inline(known)


async def _content(shelves: Shelves, ref: BlobRef) -> AsyncIterator[bytes]:
    if ref.content is not None:
        yield ref.content
        return
    blobs = await shelves.open()
    file = await asyncio.to_thread(blobs.open, ref)
    try:
        while piece := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield piece
    finally:
        await asyncio.to_thread(file.close)


def _failure(document: Document) -> dict[str, Any]:
    task = task_of(document)
    view = {"id": document.key, "key": task.key or document.key, "state": job_state(task.status)}
    return {**view, "status": task.status, "reason": task.reason}
