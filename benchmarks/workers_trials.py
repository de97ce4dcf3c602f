"""The trials of `workers.py`, each with a node of its own on an empty store."""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tidemill.store import Store, eq, one_of, open_store
from tidemill.tasks.queue import DEFAULT
from tidemill.tasks.status import CLAIMED, QUEUED, RUNNING, SUCCEEDED, is_ended
from tidemill.tasks.task import TASKS
from workers_crew import calling, form_of, submit_all, working
from workers_node import MIB, Node, open_files, started, watched

SUBMITTERS = 8
SMALL = os.urandom(1024)
LARGE_MIB = 64

_STALL_S = 300.0
_SETTLE_S = 5.0
_UNENDED = one_of("status", (QUEUED, CLAIMED, RUNNING))

Figures = dict[str, float]


@dataclass(frozen=True)
class Crewed:
    """Who works in a trial: so many workers, plain ones or with `slots` those of v1."""

    workers: int
    slots: int | None = None
    at_once: int = 1
    """How many large jobs are under way at a time."""


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    rounds: int = 3
    jobs: int = 4000
    jobs_of_one: int = 1500
    raw_s: float = 3.0
    large: int = 8
    idle: int = 2000
    idle_s: float = 70.0
    """Longer than the node waits before it asks a worker for its status again."""

    def of(self, crewed: Crewed) -> int:
        return self.jobs_of_one if crewed.workers == 1 else self.jobs


QUICK = Sizes(rounds=1, jobs=400, jobs_of_one=200, raw_s=1.5, large=2, idle=200, idle_s=3.0)


@dataclass(frozen=True)
class Stage:
    """A node, and its store seen from here."""

    node: Node
    store: Store

    async def wait_drained(self, total: int) -> None:
        """Return once all jobs have ended, durably, and all that many with a result."""
        mine = eq("queue", DEFAULT)
        while await self.store.count(TASKS, mine, _UNENDED, limit=1):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        succeeded = await self.store.count(TASKS, mine, eq("status", SUCCEEDED))
        if succeeded != total:
            raise RuntimeError(f"{succeeded} of {total} jobs have succeeded")

    async def wait_ended(self, key: str) -> None:
        while True:
            found = await self.store.get(TASKS, key)
            if found is not None and is_ended(found.body["status"]):
                return
            await asyncio.sleep(0.005)


@asynccontextmanager
async def staged(url: str, **environment: str) -> AsyncIterator[Stage]:
    """A node on an empty store; whatever is done with it has five minutes."""
    async with AsyncExitStack() as stack:
        prefix = "tidemill-workers-"
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True))
        node = await stack.enter_async_context(started(url, Path(folder), **environment))
        store = await stack.enter_async_context(open_store(url))
        await stack.enter_async_context(asyncio.timeout(_STALL_S))
        yield Stage(node, store)


async def rates(url: str, crewed: Crewed, sizes: Sizes) -> Figures:
    """Small jobs: sent without workers, then drained, then sent and drained at the same time.

    A drain ends when the last job's result is durable. `cpu` is the node's in the drain, in per cent.
    """
    total, form = sizes.of(crewed), form_of(SMALL)
    async with staged(url) as stage:
        began = time.perf_counter()
        made = await submit_all(stage.node, form, total, SUBMITTERS)
        submitted_s = time.perf_counter() - began
        async with working(stage.node, crewed.workers, slots=crewed.slots) as crew:
            cpu_s, began = stage.node.cpu_s(), time.perf_counter()
            crew.gate.set()
            await crew.wait_done(total)
            await stage.wait_drained(total)
            drained_s = time.perf_counter() - began
            cpu_s = stage.node.cpu_s() - cpu_s
            began = time.perf_counter()
            await submit_all(stage.node, form, total, SUBMITTERS)
            await crew.wait_done(2 * total)
            await stage.wait_drained(2 * total)
            both_s = time.perf_counter() - began
        async with calling(stage.node) as caller:
            assert await caller.get(f"/api/jobs/{made[-1]}/result") == SMALL
    return {
        "submit": total / submitted_s,
        "drain": total / drained_s,
        "both": total / both_s,
        "cpu": 100 * cpu_s / drained_s,
    }


async def large(url: str, crewed: Crewed, sizes: Sizes) -> Figures:
    """Large jobs: sent, done by one worker that sends back what it got, and the results fetched.

    The rates are in MiB of payload a second: of sending, of going to the worker and back, of fetching, and of
    all together. `growth` is by how much the node's memory was larger meanwhile than before, in MiB.
    """
    content = os.urandom(LARGE_MIB * MIB)
    form = form_of(content)
    # A plain worker has it all in one message.
    settings = {"TIDEMILL_WORKER_MESSAGE_MB": str(2 * LARGE_MIB)} if crewed.slots is None else {}
    async with (
        staged(url, **settings) as stage,
        working(stage.node, crewed.workers, slots=crewed.slots) as crew,
    ):
        crew.gate.set()
        await submit_all(stage.node, form_of(SMALL), 1, 1)
        await crew.wait_done(1)
        left = iter(range(sizes.large))
        spent: list[Figures] = []

        async def send() -> None:
            spent.extend([await _send_large(stage, form, content) for _ in left])

        async with watched(stage.node) as peak:
            began = time.perf_counter()
            await asyncio.gather(*(send() for _ in range(crewed.at_once)))
            whole_s = time.perf_counter() - began
    rate = LARGE_MIB * sizes.large
    alone = {name: rate / sum(one[name] for one in spent) for name in spent[0] if crewed.at_once == 1}
    return {**alone, "whole": rate / whole_s, "growth": peak.growth_mib}


async def _send_large(stage: Stage, form: bytes, content: bytes) -> Figures:
    """The seconds that each part of a job's way took."""
    async with calling(stage.node) as caller:
        began = time.perf_counter()
        key = await caller.submit(form)
        sent = time.perf_counter()
        await stage.wait_ended(key)
        done = time.perf_counter()
        result = await caller.get(f"/api/jobs/{key}/result")
        fetched = time.perf_counter()
    assert result == content
    return {"send": sent - began, "work": done - sent, "fetch": fetched - done}


async def idle(url: str, sizes: Sizes) -> Figures:
    """Many workers that are ready and have nothing to do: memory in MiB, and CPU in per cent of a core."""
    with open_files(2 * sizes.idle + 1000):
        async with staged(url) as stage:
            before = stage.node.rss()
            began = time.perf_counter()
            async with working(stage.node, sizes.idle) as crew:
                crew.gate.set()
                connected_s = time.perf_counter() - began
                await asyncio.sleep(_SETTLE_S)
                async with watched(stage.node) as peak:
                    cpu_s, began = stage.node.cpu_s(), time.perf_counter()
                    await asyncio.sleep(sizes.idle_s)
                    share = 100 * (stage.node.cpu_s() - cpu_s) / (time.perf_counter() - began)
    return {
        "workers": sizes.idle,
        "before": before / MIB,
        "memory": peak.most / MIB,
        "connects": sizes.idle / connected_s,
        "cpu": share,
    }
