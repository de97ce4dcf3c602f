"""What is large about tasks, on the command line: payloads in, results out."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import msgspec

from tidemill.app.errors import NotFound
from tidemill.app.task_views import is_blob
from tidemill.base.ids import new_id
from tidemill.store import Store
from tidemill.store.blobs import INLINE_LIMIT, BlobRef
from tidemill.tasks.blobs import Shelves, inline_content
from tidemill.tasks.errors import BadTask, IllegalMove
from tidemill.tasks.order import Order
from tidemill.tasks.queue import Queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.status import is_ended, name_of

CHUNK_BYTES = 1024 * 1024


async def with_payload(store: Store, queue: Queue, orders: Sequence[Order], file: Path) -> list[Order]:
    """The orders, each with the content of the file as its payload, which is put away if it is large."""
    if queue.kind != "remote":
        raise BadTask(
            f"queue {queue.name!r} is for {queue.kind} tasks; only remote ones have a file as payload"
        )
    shelves = Shelves(store)
    return [await _with_payload(shelves, order, file) for order in orders]


async def _with_payload(shelves: Shelves, order: Order, file: Path) -> Order:
    task = new_id()
    with file.open("rb") as source:
        content = source.read(INLINE_LIMIT + 1)
        if len(content) > INLINE_LIMIT:
            source.seek(0)
        value = await shelves.put(
            f"tasks/{task}/payload", content if len(content) <= INLINE_LIMIT else source
        )
    return msgspec.structs.replace(order, id=task, payload=value)


async def result_of(store: Store, name: str) -> AsyncIterator[bytes]:
    """The result of a task, piece by piece: bytes, or the JSON of a plugin.

    Raises `IllegalMove` before the task has ended, and `NotFound` when it left none.
    """
    key, task, _ = await Registry(store).get(name)
    if not is_ended(task.status):
        raise IllegalMove(f"task {key} is {name_of(task.status)}, and has no result yet")
    if task.result is None:
        raise NotFound(f"task {key} ended without a result: {task.reason or name_of(task.status)}")
    known = inline_content(task.result) if task.payload is not None else None
    if known is None and not is_blob(task.result):
        known = msgspec.json.encode(task.result)
    if known is not None:
        yield known
        return
    blobs = await Shelves(store).open()
    with await asyncio.to_thread(blobs.open, BlobRef.from_json(task.result)) as source:
        while piece := await asyncio.to_thread(source.read, CHUNK_BYTES):
            yield piece


async def save(content: AsyncIterator[bytes], output: Path | None) -> None:
    """Write the content to the file, or to standard output. A file is there whole or not at all.

    Raises `NotFound` when there is no folder for it.
    """
    if output is not None and not output.parent.is_dir():
        raise NotFound(f"there is no folder {output.parent}")
    first = await anext(content, b"")
    draft = None if output is None else output.with_name(f".{output.name}.part")
    with ExitStack() as stack:
        target: BinaryIO = sys.stdout.buffer
        if draft is not None:
            stack.callback(draft.unlink, missing_ok=True)
            target = stack.enter_context(draft.open("wb"))
        target.write(first)
        async for piece in content:
            target.write(piece)
        target.flush()
        if draft is not None and output is not None:
            draft.replace(output)
