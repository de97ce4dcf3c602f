"""A remote worker as a stranger writes it from the protocol: messages are JSON, jobs and results binary.

Whatever it hears that the protocol does not have, or has not at that moment, fails the test.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from uuid import uuid4

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.frames import Close

TIMEOUT_S = 20.0
BUSY, READY = 0, 1


class PlainWorker:
    """One connection. Nothing is sent but what the test says."""

    def __init__(self, line: ClientConnection, identity: str) -> None:
        self.identity = identity
        self._line = line
        self._registered = False
        self._ready = False

    async def send(self, message: object) -> None:
        """Bytes as binary, text as it is, anything else as JSON."""
        await self._line.send(message if isinstance(message, str | bytes) else json.dumps(message))

    async def send_as_text(self, message: bytes) -> None:
        """Text of these bytes, whether they are text or not."""
        await self._line.send(message, text=True)

    async def send_in_fragments(self, parts: list[bytes]) -> None:
        """One binary message, in as many frames."""
        await self._line.send(parts)

    async def register(self, token: str = "") -> None:
        self._registered = True
        await self.send({"code": 0, "name": "a plain worker", "id": self.identity, "token": token})

    async def say(self, status: int) -> None:
        self._ready = status == READY
        await self.send({"code": 1, "status": status})

    async def progress(self, percent: object, info: object) -> None:
        await self.send({"code": 3, "percent": percent, "info": info})

    async def fail(self, logs: str | None = None, info: str | None = None) -> None:
        await self.send({"code": 4, "logs": logs, "info": info})

    async def hear(self) -> bytes | None:
        """The next job, or None when it is asked for its status."""
        async with asyncio.timeout(TIMEOUT_S):
            return self._understood(await self._line.recv())

    async def asked(self) -> None:
        """The next thing it hears is the question for its status."""
        assert await self.hear() is None

    async def job(self) -> bytes:
        """The next thing it hears is a job."""
        job = await self.hear()
        assert job is not None
        return job

    async def take(self) -> bytes:
        """The next job; whenever it is asked before that, it is ready."""
        async with asyncio.timeout(TIMEOUT_S):
            while (job := await self.hear()) is None:
                await self.say(READY)
            return job

    async def closed(self) -> Close:
        """How the server closes the connection, after whatever it says before."""
        async with asyncio.timeout(TIMEOUT_S):
            with suppress(ConnectionClosed):
                while True:
                    self._understood(await self._line.recv())
        assert self._line.close_code is not None
        return Close(self._line.close_code, self._line.close_reason or "")

    async def serve(self, compute: Callable[[bytes], bytes]) -> None:
        """Do job after job, and speak only when asked, until the connection ends."""
        with suppress(ConnectionClosed):
            while True:
                job = self._understood(await self._line.recv())
                if job is None:
                    await self.say(READY)
                else:
                    await self.send(compute(job))

    def vanish(self) -> None:
        """End the connection without a word, as a power cut would."""
        self._line.transport.abort()

    def _understood(self, message: str | bytes) -> bytes | None:
        if isinstance(message, str):
            assert json.loads(message) == {"code": 2}
            assert self._registered, "asked before it had registered"
            return None
        assert self._ready, "a job for a worker that has not said since the last one that it is ready"
        self._ready = False
        return message


@asynccontextmanager
async def connected(
    address: str, queue: str | None = None, identity: str | None = None
) -> AsyncIterator[PlainWorker]:
    """A worker that has not registered, of a machine that no other has unless it is named."""
    path = "/api/worker" if queue is None else f"/api/worker/{queue}"
    url = address.replace("http", "ws", 1) + path
    async with connect(url, max_size=None, proxy=None) as line:
        yield PlainWorker(line, identity or f"machine-{uuid4().hex}")


@asynccontextmanager
async def plain_worker(
    address: str, queue: str | None = None, identity: str | None = None, token: str = ""
) -> AsyncIterator[PlainWorker]:
    """A worker that has registered."""
    async with connected(address, queue, identity) as worker:
        await worker.register(token)
        yield worker


@asynccontextmanager
async def serving(
    address: str, queue: str, compute: Callable[[bytes], bytes], workers: int = 1
) -> AsyncIterator[None]:
    """That many workers that do job after job, in the background."""
    async with AsyncExitStack() as lines, asyncio.TaskGroup() as group:
        running = [await lines.enter_async_context(plain_worker(address, queue)) for _ in range(workers)]
        for worker in running:
            group.create_task(worker.serve(compute))
        yield
        for worker in running:
            worker.vanish()
