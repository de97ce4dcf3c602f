"""Workers that are written here, and the sockets that a node has of them: queues in this process."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tidemill.cluster import Timing
from tidemill.store import Store
from tidemill.tasks.blobs import Shelves, inline_value
from tidemill.tasks.claim import Seat
from tidemill.tasks.order import Order
from tidemill.tasks.registry import Registry
from tidemill.tasks.remote.dispatch import Dispatch
from tidemill.tasks.remote.link import Link
from tidemill.tasks.task import Task


class Ended(Exception):
    """The node closed the connection."""


class Worker:
    """A worker that is written here, and the socket that its node has of it."""

    def __init__(self, dispatch: Dispatch, identity: str, *, plain: bool, queue: str = "jobs") -> None:
        self.identity = identity
        self.plain = plain
        self.inbox: asyncio.Queue[str | bytes | Ended] = asyncio.Queue()
        self.closed: tuple[int, str] | None = None
        self._pieces = b""
        self.dispatch = dispatch
        self.link = Link(self, dispatch, dispatch.shelves, queue, plain=plain, rules=dispatch.rules)
        self._clock = asyncio.create_task(self.link.keep_time())

    async def send_text(self, text: str) -> None:
        self.inbox.put_nowait(text)

    async def send_bytes(self, content: bytes, *, more: bool = False) -> None:
        self._pieces += content
        if not more:
            self.inbox.put_nowait(self._pieces)
            self._pieces = b""

    async def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)
        self.inbox.put_nowait(Ended())

    async def register(self, **more: Any) -> "Worker":
        await self.say(code=0, name=self.identity, id=self.identity, token="t", **more)
        return self

    async def say(self, **fields: Any) -> None:
        await self.link.heard(json.dumps(fields))

    async def get(self) -> Any:
        """The next message: bytes, or what text says."""
        async with asyncio.timeout(20):
            message = await self.inbox.get()
        if isinstance(message, Ended):
            raise message
        return message if isinstance(message, bytes) else json.loads(message)

    async def expect(self, code: int) -> Any:
        """The next message of that code; questions for its status are answered on the way."""
        while True:
            message = await self.get()
            if isinstance(message, dict) and message["code"] == code:
                return message
            if message == {"code": 2}:
                await self.say(code=1, status=1)
            else:
                raise AssertionError(f"{message!r} instead of {code}")

    async def job(self) -> bytes:
        """The next payload of a plain worker, which says that it is ready when it is asked."""
        while True:
            message = await self.get()
            if isinstance(message, bytes):
                return message
            assert message == {"code": 2}
            await self.say(code=1, status=1)

    def gone(self) -> None:
        self._clock.cancel()
        self.dispatch.left(self.link, "cut")


@asynccontextmanager
async def dispatching_on(store: Store, folder: Path, name: str, **options: Any) -> AsyncIterator[Dispatch]:
    async def check(token: str) -> str | None:
        return "no such token" if token == "bad" else None

    shelves = Shelves(store, f"file://{folder}/blobs")
    seat = Seat(name, f"token-{name}", 5000)
    made = Dispatch(Registry(store, shelves=shelves), seat, shelves, check, timing=Timing(5.0), **options)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def submit(registry: Registry, payload: bytes = b"work", **order: Any) -> str:
    key, _ = await registry.submit(Order(queue="jobs", payload=inline_value(payload), **order))
    return key


async def at_work(
    dispatch: Dispatch, registry: Registry, payload: bytes = b"work", **more: Any
) -> tuple[Worker, str, Any]:
    """A worker of v1 that has just been given a task: itself, the task's id, and the message that gave it."""
    worker = await Worker(dispatch, "w1", plain=False).register(**more)
    key = await submit(registry, payload)
    await worker.expect(6)
    return worker, key, await worker.expect(7)


async def until(registry: Registry, key: str, wanted: Callable[[Task], bool]) -> Task:
    """The task, once it is so."""
    async with asyncio.timeout(20):
        while True:
            _, task, _ = await registry.get(key)
            if wanted(task):
                return task
            await asyncio.sleep(0.005)


def ended(status: int) -> Callable[[Task], bool]:
    return lambda task: task.status == status
