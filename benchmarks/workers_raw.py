"""What bounds the figures of `workers.py`: the bare store without HTTP, bare WebSockets without a store."""

import asyncio
import base64
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

from tidemill.store import Claim, Collection, Store, Term, eq, open_store

LOOPS = (1, 8)
JOBS = Collection(
    "raw", fields=(("queue", "text"), ("status", "integer")), indexes=(("queue", "status", "key"),)
)
QUEUED, CLAIMED, DONE = -2, -1, 1

_CLAIM = Claim(
    where=(eq("queue", "q"), eq("status", QUEUED)),
    holder="bench",
    ttl_ms=60_000,
    sort=("key",),
    set=(("status", CLAIMED),),
)


async def store_loop(url: str, payload: bytes, loops: int, seconds: float) -> float:
    """Jobs a second of so many loops at once, each of which submits, claims and completes one at a time.

    Every act is a commit of its own. A claim of one loop may take what another has submitted.
    """
    async with open_store(url) as store:
        numbers = count()
        began = time.perf_counter()
        until = began + seconds
        done = await asyncio.gather(*(_repeat(store, payload, numbers, until) for _ in range(loops)))
        return sum(done) / (time.perf_counter() - began)


async def _repeat(store: Store, payload: bytes, numbers: "count[int]", until: float) -> int:
    body: dict[str, Any] = {"queue": "q", "status": QUEUED, "payload": base64.b64encode(payload).decode()}
    done = 0
    while time.perf_counter() < until:
        await store.create(JOBS, f"{next(numbers):012}", body)
        for taken in await store.claim(JOBS, _CLAIM):
            result = {**taken.body, "status": DONE, "result": body["payload"]}
            await store.replace(JOBS, taken.key, result, expect=Term(taken.term), release=True)
            done += 1
    return done


async def echo_loop(payload: bytes, connections: int, seconds: float) -> float:
    """Round trips a second over so many connections to a server that sends everything back."""
    async with echo_server() as port, AsyncExitStack() as stack:
        sockets = []
        for _ in range(connections):
            address = f"ws://127.0.0.1:{port}"
            socket = await connect(address, compression=None, proxy=None, ping_interval=None)
            stack.push_async_callback(socket.close)
            sockets.append(socket)
        began = time.perf_counter()
        until = began + seconds
        done = await asyncio.gather(*(_call(socket, payload, until) for socket in sockets))
        return sum(done) / (time.perf_counter() - began)


async def _call(socket: ClientConnection, payload: bytes, until: float) -> int:
    done = 0
    while time.perf_counter() < until:
        await socket.send(payload)
        await socket.recv()
        done += 1
    return done


@asynccontextmanager
async def echo_server() -> AsyncIterator[int]:
    """The port of an echo in a process of its own."""
    process = await asyncio.create_subprocess_exec(sys.executable, __file__, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        process.kill()
        await process.wait()


async def _send_back(socket: ServerConnection) -> None:
    async for message in socket:
        await socket.send(message)


async def _serve() -> None:
    async with serve(_send_back, "127.0.0.1", 0, compression=None, ping_interval=None) as server:
        [listening] = server.sockets
        print(listening.getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
