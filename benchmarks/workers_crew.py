"""Those who call a node in the trials of `workers.py`: workers that answer at once, and submitters.

Both are as lean as can be, for they share the machine with the node that is measured.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tidemill.worker import wire
from workers_node import Node

AT_A_TIME = 50
"""How many workers connect at once: each must have registered within the grace time."""

_READY = wire.encoded(wire.Status(wire.READY))
_BOUNDARY = "tidemill-bench"


class Crew:
    """What workers share: they say that they are ready once `gate` is open, and `count` what they do."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.enrolled = 0
        self.done = 0
        self._wanted = 0
        self._news = asyncio.Event()
        self._ended: asyncio.Task[None] | None = None

    def count(self) -> None:
        self.done += 1
        if self.done == self._wanted:
            self._news.set()

    def enrol(self) -> None:
        self.enrolled += 1
        self._news.set()

    def lose(self, ended: asyncio.Task[None]) -> None:
        self._ended = ended
        self._news.set()

    async def wait_enrolled(self, wanted: int) -> None:
        """Return once that many workers have been asked for their status. Raises `ConnectionError`."""
        while self.enrolled < wanted:
            await self._hear()

    async def wait_done(self, wanted: int) -> None:
        """Return once that many jobs were answered, since the beginning. Raises `ConnectionError`."""
        self._wanted = wanted
        while self.done < wanted:
            await self._hear()

    async def _hear(self) -> None:
        await self._news.wait()
        self._news.clear()
        if self._ended is not None:
            why = self._ended.exception() or "its connection was closed"
            raise ConnectionError(f"a worker has ended: {why}") from self._ended.exception()


async def work_plainly(socket: ClientConnection, crew: Crew) -> None:
    """A worker of the plain protocol: each payload is its own result."""
    enrolled = False
    while True:  # until the connection is closed, which is an error that says why
        message = await socket.recv()
        if isinstance(message, bytes):
            await socket.send(message)
            crew.count()
        else:
            if not enrolled:
                enrolled = True
                crew.enrol()
            await crew.gate.wait()
            await socket.send(_READY)


async def work_v1(socket: ClientConnection, crew: Crew) -> None:
    """A worker of v1: what comes inside a message goes back so, and streams go back as streams."""
    enrolled = False
    streams: dict[int, tuple[wire.TaskGiven, bytearray]] = {}
    sending: set[asyncio.Task[None]] = set()
    while True:
        message = await socket.recv()
        if isinstance(message, bytes):
            number, piece = wire.from_chunk(message)
            streams[number][1].extend(piece)
            continue
        said = wire.from_node(message)
        match said:
            case wire.TaskGiven(task, fence, content=str(content)):
                await socket.send(wire.encoded(wire.Result(task, fence, content)))
            case wire.TaskGiven(stream=int(number)):
                streams[number] = (said, bytearray())
            case wire.StreamEnded(number):
                answer = asyncio.create_task(send_stream(socket, number, *streams.pop(number)))
                sending.add(answer)
                answer.add_done_callback(sending.discard)
            case wire.Settled(accepted=accepted):
                assert accepted, f"the result was not taken: {said}"
                crew.count()
            case wire.StatusAsked():
                if not enrolled:
                    enrolled = True
                    crew.enrol()
                await crew.gate.wait()
                await socket.send(_READY)


async def send_stream(
    socket: ClientConnection, number: int, given: wire.TaskGiven, content: bytearray
) -> None:
    """Bring a result in pieces."""
    await socket.send(wire.encoded(wire.Result(given.task, given.fence, stream=number, size=len(content))))
    digest = hashlib.sha256()
    view = memoryview(content)
    for at in range(0, len(content), wire.CHUNK_BYTES):
        piece = view[at : at + wire.CHUNK_BYTES]
        digest.update(piece)
        await socket.send(wire.chunk(number, piece))
    await socket.send(wire.encoded(wire.StreamEnded(number, digest.hexdigest())))


@asynccontextmanager
async def working(node: Node, workers: int, *, slots: int | None = None) -> AsyncIterator[Crew]:
    """Workers that are enrolled at the node: plain ones, or with `slots` those of v1."""
    crew = Crew()
    body = work_plainly if slots is None else work_v1
    offered: Sequence[Subprotocol] | None = None if slots is None else [Subprotocol(wire.SUBPROTOCOL)]
    tasks: set[asyncio.Task[None]] = set()

    async def join(number: int) -> ClientConnection:
        socket = await connect(
            f"ws://{node.host}:{node.port}/api/worker",
            subprotocols=offered,
            compression=None,
            proxy=None,
            max_size=None,
            ping_interval=None,  # the node pings
        )
        await socket.send(wire.encoded(wire.Registered(f"w{number}", f"w{number}", slots=slots or 1)))
        task = asyncio.create_task(body(socket, crew))
        tasks.add(task)
        task.add_done_callback(crew.lose)
        return socket

    async with AsyncExitStack() as stack:
        for first in range(0, workers, AT_A_TIME):
            wave = range(first, min(first + AT_A_TIME, workers))
            for socket in await asyncio.gather(*map(join, wave)):
                stack.push_async_callback(socket.close)
            await crew.wait_enrolled(wave.stop)
        try:
            yield crew
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class Caller:
    """One connection for HTTP that is kept."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host

    async def submit(self, form: bytes) -> str:
        """Make a job of a form from `form_of`; its id."""
        kind = f"Content-Type: multipart/form-data; boundary={_BOUNDARY}"
        head = f"POST /api/jobs/submit HTTP/1.1\r\nHost: {self._host}\r\n{kind}\r\n"
        self._writer.write(f"{head}Content-Length: {len(form)}\r\n\r\n".encode())
        self._writer.write(form)
        await self._writer.drain()
        answer: dict[str, Any] = json.loads(await self._answer(202))
        return str(answer["id"])

    async def get(self, path: str) -> bytes:
        self._writer.write(f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\n\r\n".encode())
        return await self._answer(200)

    async def _answer(self, wanted: int) -> bytes:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.lower().splitlines()
        size = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
        body = await self._reader.readexactly(size)
        if int(head.split()[1]) != wanted:
            raise ConnectionError(f"the node answered {head.splitlines()[0]}: {body[:300]!r}")
        return body


@asynccontextmanager
async def calling(node: Node) -> AsyncIterator[Caller]:
    reader, writer = await asyncio.open_connection(node.host, node.port, limit=2**20)
    try:
        yield Caller(reader, writer, f"{node.host}:{node.port}")
    finally:
        writer.close()


def form_of(payload: bytes) -> bytes:
    """A job as it is sent."""
    part = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{{}}"{{}}\r\n\r\n'
    priority = part.format("priority", "").encode() + b"batch\r\n"
    file = part.format("payload", '; filename="payload"').encode()
    return b"".join((priority, file, payload, f"\r\n--{_BOUNDARY}--\r\n".encode()))


async def submit_all(node: Node, form: bytes, count: int, submitters: int) -> list[str]:
    """Send that many jobs over several connections, each the next once the last is accepted; their ids."""
    left = iter(range(count))
    made: list[str] = []

    async def submit() -> None:
        async with calling(node) as caller:
            made.extend([await caller.submit(form) for _ in left])

    await asyncio.gather(*(submit() for _ in range(submitters)))
    return made
