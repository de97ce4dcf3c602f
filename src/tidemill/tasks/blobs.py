"""Where a cluster keeps what is too large for a document, and how a value finds its way there and back.

The address is a document that nodes write, so that whoever reaches the store finds the blobs. There each
store has a folder of its own: two may have a task of the same key, and so of the same id, and neither knows
what the other's tasks refer to.

A blob belongs to the task after which it is named, `tasks/ID/…`, and goes with it. Another task may have it
as its payload: the one that a result becomes, and the one that does what was to be done after a failure. Then
it stays until neither task refers to it any more, whichever goes first.
"""

import asyncio
import base64
from collections.abc import Container, Iterable
from typing import Any, BinaryIO

from tidemill.base.ids import new_id
from tidemill.base.log import get_logger
from tidemill.store import Collection, Conflict, Store
from tidemill.store.blobs import INLINE_LIMIT, BlobError, BlobRef, Blobs, open_blobs
from tidemill.tasks.errors import BadTask
from tidemill.tasks.order import child_id, handler_key, key_id
from tidemill.tasks.task import TASKS, Task, task_of

log = get_logger("tidemill.blobs")

PREFIX = "tasks"
"""Below this name are the blobs of tasks."""

REFERRING = ("payload", "result", "stdout", "stderr")
"""What of a task may refer to a blob."""

PLACES = Collection("places")
_BLOBS = "blobs"
_SELF = "store"


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


async def store_id(store: Store) -> str:
    """What tells this store from all others. Made when it is first asked for, and the same ever after."""
    while (found := await store.get(PLACES, _SELF)) is None:
        try:
            await store.create(PLACES, _SELF, {"id": new_id()})
        except Conflict:
            pass  # somebody else just made it
    return str(found.body["id"])


class Shelves:
    """The cluster's blobs, opened when first needed: at `url`, or where a node said that they are."""

    def __init__(self, store: Store, url: str | None = None) -> None:
        self.store = store
        self._url = url
        self._blobs: Blobs | None = None

    async def open(self) -> Blobs:
        """Raises `BadTask` when no node has said yet where blobs are."""
        if self._blobs is None:
            url = self._url or await self._announced()
            own = await store_id(self.store)
            self._blobs = await asyncio.to_thread(open_blobs, url, under=own, create=True)
        return self._blobs

    async def _announced(self) -> str:
        found = await self.store.get(PLACES, _BLOBS)
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


def blob_name(value: Any) -> str | None:
    """The name of the blob that a document's value refers to; None for content that lies in the document."""
    is_reference = isinstance(value, dict) and {"name", "size", "digest"} <= value.keys()
    return str(value["name"]) if is_reference else None


async def drop_blobs(shelves: Shelves, key: str, task: Task) -> None:
    """Remove the blobs of a task whose document is gone, those of all its attempts. May be repeated.

    Its heirs keep what they were given of it, and what it was given by another goes unless that one refers to
    it. Each looks for the other when it has gone itself: of two who go at once, one removes what they shared.
    What cannot be removed is left behind, as is what a crash leaves, or a node that has lost the task puts
    there later: no document refers to that, and `tidemill.tasks.leftovers` removes it after a day.
    """
    if not _may_have_blobs(task):
        return
    children = [child_id(key, attempt) for attempt in range(1, task.attempt + 1)]
    others = await shelves.store.get_many(TASKS, [key, key_id(handler_key(key)), *children])
    if key in others:
        return  # it was made anew under the same key, and what is there goes with that one
    given = {blob_name(other.body.get("payload")) for other in others.values()}
    borrowed = await _borrowed(shelves.store, key, task)
    try:
        blobs = await shelves.open()
        await asyncio.to_thread(_drop, blobs, f"tasks/{key}", borrowed, given)
    except BadTask:
        pass  # no node has said where blobs are, so it has none
    except (BlobError, OSError) as error:
        log.warning("task.blobs_left", task=key, error=str(error))


async def drop_unmade(shelves: Shelves, refused: Iterable[tuple[str, Task]]) -> None:
    """Remove the payloads of tasks that were not made, but for what those that are there instead refer to."""
    payloads = {key: name for key, task in refused if (name := blob_name(task.payload)) is not None}
    there = await shelves.store.get_many(TASKS, list(payloads)) if payloads else {}
    used = {blob_name(found.body.get("payload")) for found in there.values()}
    for key, name in payloads.items():
        try:
            if name not in used:
                await asyncio.to_thread((await shelves.open()).delete, name)
        except (BlobError, OSError) as error:
            log.warning("task.blobs_left", task=key, error=str(error))


def _may_have_blobs(task: Task) -> bool:
    """Whether it is worth to look: what earlier attempts left is not in the document any more.

    One that was queued again, and has not finished since, has the first of them behind it.
    """
    earlier = task.attempt - 1 if task.status > 0 else task.attempt
    return earlier > 0 or task.crashes > 0 or bool(_referred(task))


def _referred(task: Task) -> set[str]:
    names = (blob_name(getattr(task, field)) for field in REFERRING)
    return {name for name in names if name is not None}


async def _borrowed(store: Store, key: str, task: Task) -> list[str]:
    """The payload, if it was made for another task that does not refer to it, or is gone."""
    name = blob_name(task.payload)
    if name is None or not name.startswith("tasks/") or name.startswith(f"tasks/{key}/"):
        return []
    owner = await store.get(TASKS, name.split("/")[1])
    return [] if owner is not None and name in _referred(task_of(owner)) else [name]


def _drop(blobs: Blobs, folder: str, others: Iterable[str], kept: Container[str | None]) -> None:
    for name in [*(entry.name for entry in blobs.entries(folder)), *others]:
        if name not in kept:
            blobs.delete(name)
