"""What a task prints, while it runs and after.

While it runs its node writes pieces of its outputs as documents, under the task's fence: a zombie's are
refused. Once it has ended, its document has all of it, and the pieces go.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from tidemill.store import Collection, Document, Done, Store, Write, ge, lt
from tidemill.store.watch import Watch
from tidemill.tasks.blobs import Shelves
from tidemill.tasks.held import Held
from tidemill.tasks.registry import Registry
from tidemill.tasks.status import is_live
from tidemill.tasks.task import Task

LOGS = Collection("task_logs")
PIECE_BYTES = 128 * 1024
MOST_BYTES = 8 * 1024 * 1024
"""How much of one output is shown while its task runs. All of it is there once it has ended."""

Stream: TypeAlias = Literal["stdout", "stderr"]
STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")


class Piece(Struct, frozen=True):
    """Some of what a task wrote on one of its streams, and where in it that begins."""

    stream: Stream
    offset: int
    data: bytes


class Journal:
    """Writes the pieces of tasks that this node runs, some at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pieces: list[tuple[Held, Piece]] = []
        self._written: dict[str, list[tuple[str, int]]] = {}

    def put(self, held: Held, stream: Stream, offset: int, data: bytes) -> None:
        """Write this down with the next `flush`."""
        room = max(MOST_BYTES - offset, 0)
        for at in range(0, min(len(data), room), PIECE_BYTES):
            self._pieces.append((held, Piece(stream, offset + at, data[at : at + PIECE_BYTES])))

    async def flush(self) -> None:
        """Write what has gathered. Pieces of tasks that have passed on are refused, and forgotten."""
        pieces, self._pieces = self._pieces, []
        writes = [_write(held, piece) for held, piece in pieces if not held.lost and not held.ending]
        if not writes:
            return
        outcomes = await self._store.write(writes)
        for write, outcome in zip(writes, outcomes, strict=True):
            if isinstance(outcome, Done):
                task = write.key.partition("/")[0]
                self._written.setdefault(task, []).append((write.key, outcome.revision))

    async def forget(self, tasks: Sequence[str]) -> None:
        """Remove the pieces of tasks that have ended, whose documents have all of it now."""
        gone = [entry for task in tasks for entry in self._written.pop(task, ())]
        if gone:
            await self._store.write([Write(LOGS, key, None, revision) for key, revision in gone])

    def has(self, task: str) -> bool:
        return task in self._written


def _write(held: Held, piece: Piece) -> Write:
    key = f"{held.key}/{held.grant.term:020d}/{piece.stream}/{piece.offset:012d}"
    body = {"data": base64.b64encode(piece.data).decode()}
    return Write(LOGS, key, body, None, held.fence)


async def read_pieces(store: Store, task: str, term: int, stream: Stream, offset: int = 0) -> list[Piece]:
    """What the attempt under that term has written so far on the stream, from the offset on."""
    prefix = f"{task}/{term:020d}/{stream}/"
    found: list[Document] = []
    cursor: str | None = None
    where = ge("key", f"{prefix}{offset:012d}"), lt("key", f"{prefix}~")
    while True:
        page = await store.find(LOGS, *where, limit=100, cursor=cursor)
        found += page.documents
        if page.cursor is None:
            return [_piece(stream, document) for document in found]
        cursor = page.cursor


def _piece(stream: Stream, document: Document) -> Piece:
    offset = int(document.key.rpartition("/")[2])
    return Piece(stream, offset, base64.b64decode(document.body["data"]))


async def read_output(shelves: Shelves, value: Any) -> bytes:
    """An output as a task's document carries it: text, or the reference of a blob."""
    if value is None:
        return b""
    return value.encode() if isinstance(value, str) else await shelves.read(value)


async def follow(registry: Registry, shelves: Shelves, name: str, *, wait: bool) -> AsyncIterator[Piece]:
    """What a task writes, as it comes, until it has ended; without `wait`, what there is now.

    When it is tried again meanwhile, what the new attempt writes begins at 0 again.
    """
    sent: dict[tuple[int, Stream], int] = {}
    async with registry.store.watch(LOGS, poll_s=5.0) as logs:
        while True:
            key, task, document = await registry.get(name)
            if not is_live(task.status):
                for piece in await _rest(shelves, task, document.term, sent):
                    yield piece
                if not wait or task.status > 0 or task.status < -2:
                    return
            for stream in STREAMS if is_live(task.status) else ():
                at = sent.get((document.term, stream), 0)
                for piece in await read_pieces(registry.store, key, document.term, stream, at):
                    sent[document.term, stream] = piece.offset + len(piece.data)
                    yield piece
            if not wait:
                return
            await _wait(logs)


async def _rest(shelves: Shelves, task: Task, term: int, sent: dict[tuple[int, Stream], int]) -> list[Piece]:
    """What an ended attempt wrote and was not told yet."""
    pieces = []
    for stream, value in zip(STREAMS, (task.stdout, task.stderr), strict=True):
        content = await read_output(shelves, value)
        at = sent.get((term, stream), 0)
        if len(content) > at:
            pieces.append(Piece(stream, at, content[at:]))
            sent[term, stream] = len(content)
    return pieces


async def _wait(logs: Watch) -> None:
    """Wait until something was written; tasks end without that, so look now and then anyway."""
    try:
        async with asyncio.timeout(1.0):
            await logs.wait()
    except TimeoutError:
        pass
