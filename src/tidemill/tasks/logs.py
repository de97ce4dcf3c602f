"""What a task prints, while it runs and after."""

import asyncio
import codecs
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

from tidemill.store.watch import Watch
from tidemill.tasks.blobs import Shelves
from tidemill.tasks.pieces import LOGS, STREAMS, Piece, Stream, read_pieces
from tidemill.tasks.registry import Registry
from tidemill.tasks.status import is_live
from tidemill.tasks.task import Task


class Told:
    """How much of a stream was told: `size` in bytes, `text` as long as these are in the text of a document.

    What is no text is longer there, as each of its bytes takes several characters.
    """

    def __init__(self) -> None:
        self.size = 0
        self._text = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    @property
    def text(self) -> int:
        return self._text + len(self._decoder.getstate()[0])

    def add(self, piece: Piece) -> None:
        self.size = piece.offset + len(piece.data)
        self._text += len(self._decoder.decode(piece.data).encode())

    def to(self, end: int) -> None:
        """All was told that the document keeps."""
        self._decoder.reset()
        self.size = self._text = end


Sent: TypeAlias = defaultdict[tuple[int, Stream], Told]
"""What was told of each stream of the attempt under each term."""


async def read_output(shelves: Shelves, value: Any) -> bytes:
    """An output as a task's document carries it: text, or the reference of a blob."""
    if value is None:
        return b""
    return value.encode() if isinstance(value, str) else await shelves.read(value)


async def follow(registry: Registry, shelves: Shelves, name: str, *, wait: bool) -> AsyncIterator[Piece]:
    """What a task writes, as it comes, until it has ended; without `wait`, what there is now.

    When it is tried again meanwhile, what the new attempt writes begins at 0 again.
    """
    sent: Sent = defaultdict(Told)
    async with registry.store.watch(LOGS, poll_s=5.0) as logs:
        while True:
            key, task, document = await registry.get(name)
            if not is_live(task.status):
                for piece in await _rest(shelves, task, document.term, sent):
                    yield piece
                if not wait or task.status > 0 or task.status < -2:
                    return
            for stream in STREAMS if is_live(task.status) else ():
                told = sent[document.term, stream]
                for piece in await read_pieces(registry.store, key, document.term, stream, told.size):
                    told.add(piece)
                    yield piece
            if not wait:
                return
            await _wait(logs)


async def _rest(shelves: Shelves, task: Task, term: int, sent: Sent) -> list[Piece]:
    """What an ended attempt wrote and was not told yet."""
    pieces = []
    for stream, value in zip(STREAMS, (task.stdout, task.stderr), strict=True):
        content, told = await read_output(shelves, value), sent[term, stream]
        at = told.text if isinstance(value, str) else told.size
        if len(content) > at:
            pieces.append(Piece(stream, at, content[at:]))
            told.to(len(content))
    return pieces


async def _wait(logs: Watch) -> None:
    """Wait until something was written; tasks end without that, so look now and then anyway."""
    try:
        async with asyncio.timeout(1.0):
            await logs.wait()
    except TimeoutError:
        pass
