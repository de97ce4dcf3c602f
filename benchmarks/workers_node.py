"""A node in a process of its own for the trials of `workers.py`, and what it takes of the machine."""

import asyncio
import os
import re
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import psutil

MIB = 2**20

_ADDRESS = re.compile(r"^Tidemill\s+http://(\S+):(\d+)$", re.MULTILINE)
_START_S = 60.0
_SAMPLE_S = 0.01


class NodeFailed(Exception):
    """The node did not start, or ended by itself; the message has the end of what it said."""


class Node:
    """A running `tidemill up`."""

    def __init__(self, process: psutil.Popen, said: Path) -> None:
        self.process = process
        self.host, self.port = "", 0
        self._said = said

    async def wait_ready(self) -> None:
        async with asyncio.timeout(_START_S):
            while not (found := _ADDRESS.search(self._said.read_text())):
                self.check_alive()
                await asyncio.sleep(0.05)
        self.host, self.port = found[1], int(found[2])

    def check_alive(self) -> None:
        if self.process.poll() is not None:
            raise NodeFailed(f"the node ended by itself: {self._said.read_text()[-400:]}")

    def rss(self) -> int:
        """Its memory, in bytes."""
        return int(self.process.memory_info().rss)

    def cpu_s(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)


@asynccontextmanager
async def started(store: str, folder: Path, **environment: str) -> AsyncIterator[Node]:
    """A node on that store with its blobs in the folder, and settings as they come; killed at the end."""
    said = folder / "said"
    command = [sys.executable, "-m", "tidemill", "up", "--store", store, "--data", str(folder / "data")]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMILL_")}
    with said.open("wb") as log:
        process = psutil.Popen(
            [*command, "--name", "bench", "--port", "0", "--log-level", "warning"],
            cwd=folder,  # where there is no file of settings
            env={**kept, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        node = Node(process, said)
        await node.wait_ready()
        yield node
        node.check_alive()
    finally:
        process.kill()
        process.wait()


class Peak:
    """The most memory that a node had while it was looked at."""

    def __init__(self, before: int) -> None:
        self.before = before
        self.most = before

    @property
    def growth_mib(self) -> float:
        return (self.most - self.before) / MIB


@asynccontextmanager
async def watched(node: Node) -> AsyncIterator[Peak]:
    """Look at its memory a hundred times a second meanwhile."""
    peak = Peak(node.rss())

    async def look() -> None:
        while True:
            peak.most = max(peak.most, node.rss())
            await asyncio.sleep(_SAMPLE_S)

    looking = asyncio.create_task(look())
    try:
        yield peak
    finally:
        looking.cancel()
        peak.most = max(peak.most, node.rss())


@contextmanager
def open_files(wanted: int) -> Iterator[None]:
    """Let this process, and those it starts, have that many connections. Raises OSError where it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise OSError(f"{wanted} open files are needed, and the limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
