"""Nodes that tests play, message by message, behind a real WebSocket server; and workers for them."""

import asyncio
import hashlib
import os
import select
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol

from tidemill.worker import Job, Worker, wire
from tidemill.worker.wire import TaskRef

PATIENCE_S = 30
LARGE = bytes(range(256)) * 4096 + b"the end"
READY, BUSY = wire.Status(wire.READY), wire.Status(wire.BUSY)


class Visit:
    """One connection of a worker, as its node sees it."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection
        self.plain = connection.subprotocol is None
        assert connection.request is not None
        self.path = connection.request.path

    async def hear(self) -> Any:
        """The next message."""
        async with asyncio.timeout(PATIENCE_S):
            message = await self.connection.recv()
        return message if isinstance(message, bytes) else wire.from_worker(message, plain=self.plain)

    async def say(self, *messages: wire.FromNode) -> None:
        for message in messages:
            await self.connection.send(wire.encoded(message))

    async def greet(self, *kept: TaskRef, session: str = "s-1") -> wire.Registered:
        """Take in a worker that registers, and see whether it is ready."""
        hello = await self.hear()
        assert isinstance(hello, wire.Registered)
        if self.plain:
            await self.say(wire.StatusAsked())
        else:
            await self.say(wire.Welcome(session, 1024 * 1024, kept), wire.StatusAsked())
        return hello

    async def give(self, task: str, content: bytes, fence: int = 1, **fields: Any) -> TaskRef:
        """A task with its payload inside."""
        given = wire.TaskGiven(task, fence, 1, "shout", content=wire.inline(content), **fields)
        await self.say(given)
        return TaskRef(task, fence)

    async def give_stream(self, task: str, content: bytes, *, stream: int = 1, digest: str = "") -> TaskRef:
        """A task whose payload follows in pieces."""
        await self.say(wire.TaskGiven(task, 1, 1, "shout", stream=stream, size=len(content)))
        for start in range(0, len(content), wire.CHUNK_BYTES):
            await self.connection.send(wire.chunk(stream, content[start : start + wire.CHUNK_BYTES]))
        await self.say(wire.StreamEnded(stream, digest or hashlib.sha256(content).hexdigest()))
        return TaskRef(task, 1)

    async def hear_stream(self) -> tuple[wire.Result, bytes]:
        """A result that comes in pieces, whole and checked."""
        result = await self.hear()
        assert isinstance(result, wire.Result)
        content = bytearray()
        while isinstance(message := await self.hear(), bytes):
            stream, piece = wire.from_chunk(message)
            assert stream == result.stream
            assert len(piece) <= wire.CHUNK_BYTES
            content += piece
        assert message == wire.StreamEnded(result.stream or 0, hashlib.sha256(content).hexdigest())
        assert len(content) == result.size
        return result, bytes(content)

    async def settle(self, ref: TaskRef) -> None:
        await self.say(wire.Settled(ref.task, ref.fence, True))

    async def close(self, code: int = 1012, reason: str = "") -> None:
        await self.connection.close(code, reason)

    def cut(self) -> None:
        """End the connection without a word."""
        self.connection.transport.abort()

    async def gone(self) -> int | None:
        """Wait until the worker has left; the code that it left with."""
        async with asyncio.timeout(PATIENCE_S):
            await self.connection.wait_closed()
        return self.connection.close_code


@dataclass(frozen=True)
class Node:
    """A server for workers, and those that came."""

    url: str
    visits: asyncio.Queue[Visit]

    async def visit(self) -> Visit:
        """The next connection."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.visits.get()


@asynccontextmanager
async def node(
    *, tls: ssl.SSLContext | None = None, spoken: bool = True, **options: Any
) -> AsyncIterator[Node]:
    """A node on a port of its own."""
    visits: asyncio.Queue[Visit] = asyncio.Queue()

    async def receive(connection: ServerConnection) -> None:
        visits.put_nowait(Visit(connection))
        await connection.wait_closed()

    def select(_: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
        return offered[0] if spoken and wire.SUBPROTOCOL in offered else None

    async with serve(receive, "127.0.0.1", 0, ssl=tls, select_subprotocol=select, **options) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield Node(f"{'https' if tls else 'http'}://127.0.0.1:{port}", visits)


@asynccontextmanager
async def working(url: Any, handler: Any, **options: Any) -> AsyncIterator[Worker]:
    """A worker at work; it is ended at once in the end."""
    options.setdefault("id", "worker-1")
    worker = Worker(url, handler, queue="shout", **options)
    serving = asyncio.create_task(worker.serve())
    try:
        yield worker
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


def shout(job: Job) -> bytes:
    return job.payload.upper()


def ends(pid: int) -> bool:
    """Whether the process is gone, or about to be: a signal takes a moment."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return handle in select.select([handle], [], [], 30)[0]
    finally:
        os.close(handle)
