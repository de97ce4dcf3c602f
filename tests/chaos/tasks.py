"""Tasks on nodes that are killed and stopped, and every write about them judged.

python -m chaos.tasks --tasks 2000 --kills 10 --stops 10      on both stores, one after the other
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import cloudpickle
from msgspec import Struct

from chaos import recorder, task_checks, task_work
from chaos.task_work import work
from e2e.nodes import NodeProcess
from servers import PostgresServer
from tidemill.api.executor import Executor
from tidemill.cluster import Timing
from tidemill.store import open_store
from tidemill.tasks.policy import Policy
from tidemill.tasks.queue import Queue, create_queue
from tidemill.tasks.task import TASKS

cloudpickle.register_pickle_by_value(task_work)  # nodes have no tests to import it from

QUEUE = "chaos"
THREADS = 8
POLICY = Policy(crashes=100)
"""No task is given up for the nodes that were lost with it: a slow machine loses more than are hurt."""

TTL_S = 5.0
WORK_S = 0.05


class Plan(Struct, frozen=True):
    """What is done to how many nodes while how many tasks run."""

    tasks: int = 2000
    kills: int = 10
    stops: int = 10
    nodes: int = 5
    seed: int = 1


class Verdict(Struct, frozen=True):
    """What was counted, and what is wrong."""

    store: str
    counts: dict[str, int]
    wrong: list[str]


async def run(store: str, url: str, folder: Path, plan: Plan) -> Verdict:
    """Submit the tasks, hurt the nodes until all have ended, and judge what was recorded."""
    async with open_store(url) as opened:
        await create_queue(opened, Queue(name=QUEUE, kind="function", threads=THREADS, policy=POLICY))
        await recorder.install(opened, url, (TASKS,))
    names = [f"node-{at}" for at in range(plan.nodes)]
    nodes = [NodeProcess(url, folder, name, "--slots", "2", "--ttl-s", str(TTL_S)) for name in names]
    await asyncio.gather(*(node.start() for node in nodes))
    path = folder / "ran.txt"
    path.touch()
    executor = await asyncio.to_thread(lambda: Executor(url, queue=QUEUE))
    try:
        calls: list[Any] = [((str(path), at, WORK_S), {}) for at in range(plan.tasks)]
        futures = await asyncio.to_thread(executor.submit_all, work, calls)
        hurting = asyncio.create_task(hurt(nodes, plan, random.Random(plan.seed)))
        ended = asyncio.gather(*(asyncio.wrap_future(one) for one in futures), return_exceptions=True)
        await asyncio.gather(hurting, ended)
    finally:
        await asyncio.to_thread(lambda: executor.shutdown(wait=False))
        await asyncio.gather(*(node.kill() for node in nodes))
    return judge(
        store, plan, futures, task_checks.of_tasks(recorder.read(url)), path.read_text().splitlines()
    )


async def hurt(nodes: Sequence[NodeProcess], plan: Plan, source: random.Random) -> None:
    """Kill nodes and stop others past the end of their leases, in an order that the seed draws."""
    faults = ["kill"] * plan.kills + ["stop"] * plan.stops
    source.shuffle(faults)
    for fault in faults:
        node = source.choice(nodes)
        await asyncio.sleep(source.uniform(0.2, 1.5))
        if fault == "kill":
            await node.kill()
            await node.start()
        else:
            node.send(signal.SIGSTOP)
            await asyncio.sleep(Timing(TTL_S).ttl_s + 1.0)
            node.send(signal.SIGCONT)


def judge(
    store: str,
    plan: Plan,
    futures: Sequence[Future[Any]],
    changes: Sequence[recorder.Change],
    lines: Sequence[str],
) -> Verdict:
    ids = [str(getattr(future, "id", "")) for future in futures]
    failed = [future.exception() for future in futures if future.exception() is not None]
    fences = {
        key: future.result()[1] for key, future in zip(ids, futures, strict=True) if not future.exception()
    }
    begun = task_checks.runs(lines)
    lost = list(task_checks.none_lost(changes, ids))
    twice = list(task_checks.none_ended_twice(changes))
    wrong = [
        *lost,
        *twice,
        *task_checks.no_cap_exceeded(changes, THREADS),
        *task_checks.no_step_back(changes),
        *task_checks.no_zombie(changes, fences),
        *(f"a task failed: {error!r}" for error in failed),
    ]
    counts = {
        "tasks": plan.tasks,
        "kill -9": plan.kills,
        "SIGSTOP past expiry": plan.stops,
        "accepted writes judged": len(changes),
        "lost": len(lost),
        "completed twice": len(twice),
        "run twice or more": sum(count > 1 for count in begun.values()),
        "failed": len(failed),
    }
    return Verdict(store, counts, wrong)


def table(verdicts: Sequence[Verdict]) -> str:
    rows = [["", *(verdict.store for verdict in verdicts)], ["---", *("---:" for _ in verdicts)]]
    rows += [[name, *(f"{verdict.counts[name]:,}" for verdict in verdicts)] for name in verdicts[0].counts]
    rows.append(["**wrong**", *(f"**{len(verdict.wrong)}**" for verdict in verdicts)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos.tasks", description=__doc__)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--stops", type=int, default=10)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--store", choices=("sqlite", "postgres"))
    chosen = parser.parse_args()
    plan = Plan(chosen.tasks, chosen.kills, chosen.stops, chosen.nodes, chosen.seed)
    print(f"chaos of tasks: seed {plan.seed}", file=sys.stderr)
    verdicts = []
    for store in [chosen.store] if chosen.store else ("sqlite", "postgres"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if store == "sqlite":
                verdicts.append(asyncio.run(run(store, f"sqlite:///{folder}/store.db", folder, plan)))
            else:
                with PostgresServer() as server:
                    verdicts.append(asyncio.run(run(store, server.create_database("tasks"), folder, plan)))
    print(table(verdicts))
    for verdict in verdicts:
        for sentence in verdict.wrong[:20]:
            print(f"{verdict.store}: {sentence}", file=sys.stderr)
    return 1 if any(verdict.wrong for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
