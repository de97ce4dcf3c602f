"""How fast partitions are taken, how evenly, and what the nodes cost when nothing happens.

python benchmarks/partitions.py [--partitions 1000] [--nodes 1 10 100] [--seconds 40]

Real processes, up to ten nodes in each. First 1,000 partitions over ten nodes with slots for more than
their share: the time from the first partition that can be seen to the last that is taken, and how many
each node has. Then nodes that are left alone: without partitions, and each with ten in progress. The bar:
at most one statement a second and node.
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple, Self

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from servers import PostgresServer
from tidemill.cluster import Windowed, Work, list_nodes, taking_part
from tidemill.cluster.partitions import read_leases
from tidemill.store import Store, open_store

IN_ONE_PROCESS = 10
SETTLE_S = 8.0
LOOK_S = 0.02


class Gated:
    """So many tasks, from the moment on that a file is there."""

    def __init__(self, gate: Path, count: int) -> None:
        self._gate = gate
        self._names = [f"{at:05d}" for at in range(count)]

    async def more(self, room: int, known: Collection[str]) -> Mapping[str, bytes]:
        if not self._gate.exists():
            return {}
        return dict.fromkeys([name for name in self._names if name not in known][:room], b"nothing")

    async def finished(self, names: Sequence[str]) -> None:
        raise AssertionError(f"{names} never end")


class Cost(NamedTuple):
    """What the nodes of one process have cost so far."""

    calls: list[int]
    cpu_s: float


async def until_stopped(work: Work) -> None:
    await work.wait_stop()


async def run_nodes(url: str, names: Sequence[str], slots: int, source: Gated, parent: Connection) -> None:
    async with AsyncExitStack() as stack:
        members = []
        for name in names:
            part = taking_part(
                url,
                name,
                {"bench": until_stopped},
                slots=slots,
                duties=lambda store, fence: [Windowed(store, "bench", fence, source, window=10**6)],
            )
            members.append(await stack.enter_async_context(part))
        parent.send("ready")
        while await asyncio.to_thread(parent.recv) == "cost":
            calls = [one.store.statistics().calls + one.heart.store_statistics().calls for one in members]
            parent.send(Cost(calls, time.process_time()))


def node_process(url: str, names: Sequence[str], slots: int, source: Gated, parent: Connection) -> None:
    asyncio.run(run_nodes(url, names, slots, source, parent))


class Nodes:
    """So many nodes, in processes of ten."""

    def __init__(self, url: str, count: int, slots: int, source: Gated) -> None:
        self.count = count
        self._pipes: list[Connection] = []
        self._processes: list[multiprocessing.Process] = []
        names = [f"n{at:03d}" for at in range(count)]
        for begin in range(0, count, IN_ONE_PROCESS):
            ours, theirs = multiprocessing.Pipe()
            parts = (url, names[begin : begin + IN_ONE_PROCESS], slots, source, theirs)
            self._pipes.append(ours)
            self._processes.append(multiprocessing.Process(target=node_process, args=parts))

    def __enter__(self) -> Self:
        for process in self._processes:
            process.start()
        for pipe in self._pipes:
            pipe.recv()
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.send("stop")
        for process in self._processes:
            process.join()

    def cost(self) -> Cost:
        for pipe in self._pipes:
            pipe.send("cost")
        costs: list[Cost] = [pipe.recv() for pipe in self._pipes]
        return Cost([calls for cost in costs for calls in cost.calls], sum(cost.cpu_s for cost in costs))


async def enrolled(store: Store, count: int) -> None:
    """Wait until all nodes are in the list."""
    there = 0
    while there < count:
        await asyncio.sleep(LOOK_S)
        there = sum(node.alive and node.slots > 0 for node in await list_nodes(store))


async def taken(store: Store, count: int) -> tuple[float, Counter[str]]:
    """Seconds from the first partition that is there to the last that is taken; how many each token has."""
    began: float | None = None
    while True:
        found, now = await read_leases(store), await store.now()
        if found and began is None:
            began = time.monotonic()
        held = Counter(str(seen.holder) for seen in found if seen.held(now))
        if began is not None and held.total() == count:
            return time.monotonic() - began, held
        await asyncio.sleep(LOOK_S)


async def spread(name: str, url: str, gate: Path, count: int, nodes: int) -> None:
    slots = 2 * count // nodes
    with Nodes(url, nodes, slots, Gated(gate, count)):
        async with open_store(url) as store:
            await enrolled(store, nodes)
            await asyncio.to_thread(gate.touch)
            seconds, held = await taken(store, count)
    counts = sorted(held.values())
    print(
        f"{name}: {count:,} partitions over {nodes} nodes, all taken in {seconds:.1f} s, "
        f"{counts[0]} to {counts[-1]} each (slots for {slots})",
        flush=True,
    )


async def idle(name: str, url: str, gate: Path, nodes: int, seconds: float) -> None:
    with Nodes(url, nodes, 20, Gated(gate, 10 * nodes)) as running:
        async with open_store(url) as store:
            await enrolled(store, nodes)
            measure(f"{name}, {nodes} nodes without partitions", running, seconds)
            await asyncio.to_thread(gate.touch)
            await taken(store, 10 * nodes)
            measure(f"{name}, {nodes} nodes with ten partitions each", running, seconds)


def measure(what: str, running: Nodes, seconds: float) -> None:
    time.sleep(SETTLE_S)
    before, began = running.cost(), time.monotonic()
    time.sleep(seconds)
    after, spent = running.cost(), time.monotonic() - began
    rates = [(late - early) / spent for early, late in zip(before.calls, after.calls, strict=True)]
    cpu = 100 * (after.cpu_s - before.cpu_s) / spent / running.count
    print(
        f"{what}: {statistics.mean(rates):.2f} statements a second and node "
        f"(at most {max(rates):.2f}), {cpu:.2f} % of a core each",
        flush=True,
    )


@contextlib.contextmanager
def databases(purpose: str) -> Iterator[dict[str, tuple[str, Path]]]:
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:
        yield {
            "sqlite": (f"sqlite:///{folder}/store.db", Path(folder) / "gate-sqlite"),
            "postgres": (server.create_database(purpose), Path(folder) / "gate-postgres"),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--seconds", type=float, default=40.0)
    chosen = parser.parse_args()
    with databases("spread") as places:
        for name, (url, gate) in places.items():
            asyncio.run(spread(name, url, gate, chosen.partitions, 10))
    for count in chosen.nodes:
        with databases("idle") as places:
            for name, (url, gate) in places.items():
                asyncio.run(idle(name, url, gate, count, chosen.seconds))


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
