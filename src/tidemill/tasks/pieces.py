"""What a task prints while it runs: pieces of its outputs, as documents.

Its node writes them under the task's fence: a zombie's are refused. Once the task has ended, its document has
all of it, and the pieces go.
"""

import base64
from typing import Literal, TypeAlias

from msgspec import Struct

from tidemill.store import Collection, Document, Store, Write, ge, lt
from tidemill.tasks.held import Held

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
        self._written: dict[str, bool] = {}

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
        self._written.update((write.key.partition("/")[0], True) for write in writes)
        await self._store.write(writes)

    async def forget(self, task: str) -> None:
        """Remove the pieces of a task that has ended, whose document has all of it now."""
        if self._written.pop(task, None):
            await remove_pieces(self._store, task)

    def has(self, task: str) -> bool:
        return task in self._written


def _write(held: Held, piece: Piece) -> Write:
    key = f"{held.key}/{held.grant.term:020d}/{piece.stream}/{piece.offset:012d}"
    body = {"data": base64.b64encode(piece.data).decode()}
    return Write(LOGS, key, body, None, held.fence)


async def remove_pieces(store: Store, *tasks: str) -> None:
    """Remove what all attempts at the tasks have left, also those whose node died. May be repeated.

    Many tasks cost one look: there are pieces of hardly any but those that run.
    """
    wanted, prefixes = set(tasks), [f"{task}/" for task in tasks]
    cursor: str | None = None
    while wanted:
        where = ge("key", min(prefixes)), lt("key", f"{max(prefixes)}~")
        page = await store.find(LOGS, *where, limit=100, fields=(), cursor=cursor)
        ours = [found for found in page.documents if found.key.rsplit("/", 3)[0] in wanted]
        await store.write([Write(LOGS, found.key, None, found.revision) for found in ours])
        cursor = page.cursor
        if cursor is None:
            return


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
