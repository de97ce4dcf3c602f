"""One store, from start to verdict."""

import asyncio
import contextlib
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from chaos import checks, recorder
from chaos.faults import FAULTS, faults, flood
from chaos.stage import Database, PostgresDatabase, SqliteFile, Stage, faketime
from chaos.words import BOOKS, TASKS
from servers import PostgresServer
from tidemill.base.errors import TidemillError
from tidemill.cluster import list_partitions
from tidemill.store import Store, open_store

NO_LIMIT = 10**9
DRAIN_S = 180.0
GAP_S = 4.0
"""How long one fault comes after the other, on average."""

AT_ONCE = 3
"""How many faults may be going on at the same time."""


_crowding = threading.Lock()
"""One crowd at a time: two hundred processes that start at once would measure the machine."""


class Plan(Struct, frozen=True):
    """What is asked of a run. `crowd` nodes join at once, in the middle of it."""

    kind: str
    seconds: float
    seed: int
    nodes: int = 6
    crowd: int = 100


class Verdict(Struct, frozen=True):
    """What came of a run; nothing is `wrong` when it is clean."""

    plan: Plan
    wrong: list[str]
    faults: dict[str, int]
    counts: dict[str, int]
    crowd_s: float
    clock: str
    seconds: float


async def run(plan: Plan, folder: Path) -> Verdict:
    """Start the agents, hurt them, let them finish, and judge. What they logged stays in the folder."""
    source, began = random.Random(plan.seed), time.monotonic()
    with _database(plan.kind, folder) as database:
        stage = Stage(database, folder, source)
        await prepare(database.url)
        try:
            clock = await _enter(stage, plan.nodes)
            done, crowd_s = await _hurt(stage, plan, source)
            total, late = await _finish(stage)
            await asyncio.gather(*(stage.leave(agent) for agent in list(stage.agents)))
        finally:
            await stage.close()
        said = stage.said()
        changes = await asyncio.to_thread(recorder.read, database.url)
    wrong = [*late, *stage.bad_ends(), *checks.judge(changes, said, total)]
    took = time.monotonic() - began
    return Verdict(plan, wrong, dict(done), checks.counts(changes, said), crowd_s, clock, took)


@contextlib.contextmanager
def _database(kind: str, folder: Path) -> Iterator[Database]:
    with ExitStack() as stack:
        if kind == "sqlite":
            yield SqliteFile(folder)
        else:
            yield PostgresDatabase(stack.enter_context(PostgresServer()))


async def prepare(url: str) -> None:
    """A store that records, with tasks without end."""
    async with open_store(url) as store:
        await recorder.install(store, url)
        await store.create(BOOKS, "limit", {"limit": NO_LIMIT})


async def _enter(stage: Stage, nodes: int) -> str:
    """All agents; every other one is careless, and one has its clock an hour off, if that can be had."""
    clock = "+3600" if faketime() is not None else None
    for at in range(nodes):
        flags = ["--careless"] if at % 2 == 0 else []
        stage.enter(f"node-{at}", *flags, clock=clock if at == 1 else None)
    for agent in stage.agents:
        await agent.wait_for(lambda line: line["event"] == "joined")
    return "one node an hour ahead" if clock else "as it is: libfaketime is not installed"


async def _hurt(stage: Stage, plan: Plan, source: random.Random) -> tuple[Counter[str], float]:
    """One fault after the other, and several at once, until the time is over and all have ended."""
    done: Counter[str] = Counter()
    room = asyncio.Semaphore(AT_ONCE)
    crowd_s = 0.0

    async def inflict(name: str) -> None:
        async with room:
            _tell(plan, name)
            await FAULTS[name][0](stage, source)
            done[name] += 1

    until, crowd_at = time.monotonic() + plan.seconds, time.monotonic() + plan.seconds / 3
    under_way: set[asyncio.Task[None]] = set()
    drawn = faults(source)
    while time.monotonic() < until:
        await asyncio.sleep(source.expovariate(1 / GAP_S))
        ended = {task for task in under_way if task.done()}
        await asyncio.gather(*ended)
        under_way -= ended
        under_way.add(asyncio.create_task(inflict(next(drawn))))
        if plan.crowd and crowd_at <= time.monotonic():
            crowd_at = float("inf")
            crowd_s = await _crowd(stage, plan)
            done[f"{plan.crowd} nodes joining at once"] += 1
    await asyncio.gather(*under_way)
    return done, crowd_s


async def _crowd(stage: Stage, plan: Plan) -> float:
    await asyncio.to_thread(_crowding.acquire)
    try:
        _tell(plan, f"{plan.crowd} nodes join")
        return await flood(stage, plan.crowd)
    finally:
        _crowding.release()


async def _finish(stage: Stage) -> tuple[int, list[str]]:
    """Give out no more tasks, and wait for those that there are; how many that is, and what is wrong."""
    async with open_store(stage.database.url) as store:
        limit = await _highest(store) + 1
        found = await store.get(BOOKS, "limit")
        assert found is not None
        await store.replace(BOOKS, "limit", {"limit": limit}, expect=found.revision)
        try:
            async with asyncio.timeout(DRAIN_S):
                return await _all_done(store, limit), []
        except TimeoutError:
            left = [f"{one.key} {one.state} {one.error}" for one in await list_partitions(store, TASKS)]
            return limit, [
                f"{len(left)} tasks were not done {DRAIN_S:.0f} s after the last fault: {left[:5]}"
            ]


async def _all_done(store: Store, limit: int) -> int:
    """Wait until at least so many tasks are finished, and none is left; how many there were."""
    total = -1
    while total < limit:
        await asyncio.sleep(0.5)
        total = await _drained(store)
    return total


async def _highest(store: Store) -> int:
    """The highest task that was ever made."""
    open_now = [int(found.name) for found in await list_partitions(store, TASKS)]
    done = await store.get(BOOKS, "done")
    closed: list[int] = [done.body["below"] - 1, *done.body["beyond"]] if done is not None else []
    return max(-1, *open_now, *closed)


async def _drained(store: Store) -> int:
    """How many tasks were made, once none is left; -1 before."""
    try:
        if await list_partitions(store, TASKS):
            return -1
        done = await store.get(BOOKS, "done")
    except TidemillError:
        return -1
    return int(done.body["below"]) if done is not None and not done.body["beyond"] else -1


def _tell(plan: Plan, what: str) -> None:
    print(f"  {plan.kind}: {what}", file=sys.stderr, flush=True)


def run_in_folder(plan: Plan) -> Verdict:
    """A run of its own; its folder is kept when something is wrong."""
    folder = Path(tempfile.mkdtemp(prefix=f"tidemill-chaos-{plan.kind}-"))
    verdict = asyncio.run(run(plan, folder))
    if not verdict.wrong:
        with ExitStack() as stack:
            stack.enter_context(contextlib.suppress(OSError))
            _remove(folder)
    return verdict


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
