"""Nodes started by `tidemill up`, and what they answer over HTTP."""

import asyncio
import contextlib
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import httpx2

_ADDRESS = re.compile(r"^Tidemill\s+(\S+)$")


class NodeProcess:
    """One `tidemill up`. `address` is known once it listens."""

    def __init__(self, store: str, folder: Path, name: str, *flags: str) -> None:
        self.name = name
        self.address = ""
        self.errors: list[str] = []
        self._command = ["up", "--store", store, "--data", str(folder / name), "--name", name, *flags]
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._listens = asyncio.Event()

    async def start(self, port: int = 0) -> Self:
        self._listens.clear()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tidemill",
            *self._command,
            "--port",
            str(port),
            stderr=asyncio.subprocess.PIPE,
        )
        self._reading = asyncio.create_task(self._read())
        await self._listens.wait()
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def wait(self) -> int:
        assert self._process is not None
        assert self._reading is not None
        code = await self._process.wait()
        await self._reading
        return code

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.send(signal.SIGKILL)
        await self.wait()

    async def cluster(self) -> dict[str, Any]:
        async with httpx2.AsyncClient(base_url=self.address) as client:
            answer: dict[str, Any] = (await client.get("/api/v1/cluster")).json()
            return answer

    async def status(self, path: str) -> int:
        async with httpx2.AsyncClient(base_url=self.address) as client:
            return int((await client.get(path)).status_code)

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        async for raw in self._process.stderr:
            line = raw.decode().rstrip()
            self.errors.append(line)
            if found := _ADDRESS.match(line):
                self.address = found[1]
                self._listens.set()
        self._listens.set()


@contextlib.asynccontextmanager
async def nodes(store: str, folder: Path, count: int, *flags: str) -> AsyncIterator[list[NodeProcess]]:
    """That many nodes on one store; killed at the end."""
    running = [NodeProcess(store, folder, f"n{at}", *flags) for at in range(count)]
    try:
        for node in running:
            await node.start()
        yield running
    finally:
        for node in running:
            await node.kill()


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again until it is so; the test's own time limit ends the wait."""
    while not await true():  # noqa: ASYNC110 - over HTTP there is nothing else to wait on
        await asyncio.sleep(0.05)


async def agreed(running: list[NodeProcess]) -> dict[str, Any]:
    """The cluster as all of these nodes see it, once they see the same leader among themselves."""

    async def same() -> bool:
        views = [await node.cluster() for node in running]
        leaders = {view["leader"] for view in views}
        return len(leaders) == 1 and leaders <= {view["node"] for view in views}

    await until(same)
    return await running[0].cluster()
