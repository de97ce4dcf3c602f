"""Which systems are measured, on which stores, and how their workers are started.

Two worker processes each, with the settings that were the quickest of those tried. In a command `{store}` is
the address of the store, `{folder}` a folder of the trial, and `{n}` the number of the process.
"""

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

Place: TypeAlias = Literal["redis", "redis-aof", "sqlite", "postgres"]
Command: TypeAlias = tuple[str, ...]

DURABILITY: dict[Place, str] = {
    "redis": "Redis, no persistence",
    "redis-aof": "Redis, append-only file, appendfsync everysec",
    "sqlite": "SQLite, WAL, synchronous=FULL",
    "postgres": "PostgreSQL as it comes, fsync on",
}
BROKERS = frozenset[Place]({"redis", "redis-aof"})


@dataclass(frozen=True)
class System:
    """A row of the table."""

    key: str
    title: str
    module: str
    place: Place
    tasks: int
    """How many tasks are drained: some seconds' worth."""
    crew: tuple[Command, ...]
    """The workers of throughput."""
    attentive: tuple[Command, ...]
    """The workers of latency and of idle cost."""
    instance: Command
    """One of the two that stand by at the kill: one task at a time."""
    results: str
    bulk: str = "none"
    safety: str = "nothing is acknowledged"
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def ours(self) -> bool:
        return self.module == "tidemill_app"


def words(line: str) -> Command:
    return tuple(line.split())


def tidemill(key: str, place: Place, nodes: int) -> System:
    node = "tidemill up --store {store} --data {folder}/{n} --name bench-{n} --port 0 --log-level warning"
    crew = (words(f"{node} --slots {2 // nodes}"),) * nodes
    return System(
        key=key,
        title="Tidemill, " + ("1 node with 2 runners" if nodes == 1 else "2 nodes with 1 runner"),
        module="tidemill_app",
        place=place,
        tasks=20_000,
        crew=crew,
        attentive=crew,
        instance=words(f"{node} --slots 1"),
        results="in the task's document, pickled; the caller is woken",
        bulk="Executor.submit_all",
        safety="as it comes: leases of 5 s",
    )


def huey(key: str, place: Place, tasks: int, polls: str, results: str) -> System:
    consumer = "huey_consumer task_peers.huey_app.huey -k process -q -n"
    return System(
        key=key,
        title="Huey",
        module="huey_app",
        place=place,
        tasks=tasks,
        crew=(words(f"{consumer} -w 2"),),
        attentive=(words(f"{consumer} -w 2 {polls}"),),
        instance=words(f"{consumer} -w 1"),
        results=results,
    )


def taskiq(key: str, broker: str, flags: str, safety: str) -> System:
    worker = "taskiq worker task_peers.taskiq_app:broker --log-level WARNING"
    crew = (words(f"{worker} --workers 2 {flags}"),)
    return System(
        key=key,
        title=f"taskiq, {broker}",
        module="taskiq_app",
        place="redis",
        tasks=10_000,
        crew=crew,
        attentive=crew,
        instance=words(f"{worker} --workers 1 --max-async-tasks 1"),
        results="Redis keys; polled at 1 ms",
        safety=safety,
        environment={"BENCH_BROKER": broker},
    )


_CELERY = "celery -A task_peers.celery_app worker -l ERROR -n w{n}@bench"
_QUIET = "--without-gossip --without-mingle --without-heartbeat"
CELERY = System(
    key="celery",
    title="Celery",
    module="celery_app",
    place="redis",
    tasks=5_000,
    crew=(words(f"{_CELERY} -P solo {_QUIET}"),) * 2,
    attentive=(words(f"{_CELERY} -P solo {_QUIET}"),) * 2,
    instance=words(f"{_CELERY} -P prefork -c 1"),
    results="Redis keys; the caller subscribes",
    safety="late acknowledgement, visibility timeout 10 s",
)

_RQ = "rq worker bench --url {store} -q"
_RQ_SAFE = "--maintenance-interval 5 --job-monitoring-interval 2 --worker-ttl 20"
RQ = System(
    key="rq",
    title="RQ",
    module="rq_app",
    place="redis",
    tasks=2_000,
    crew=(words(f"{_RQ} -w rq.worker.SimpleWorker"),) * 2,
    attentive=(words(f"{_RQ} -w rq.worker.SimpleWorker"),) * 2,
    instance=words(f"{_RQ} {_RQ_SAFE}"),
    results="a Redis stream for each job; the caller blocks on it",
    bulk="enqueue_many by 1,000",
    safety="Retry(3), maintenance every 5 s, beats every 2 s",
)

_DRAMATIQ = "dramatiq task_peers.dramatiq_app"
DRAMATIQ = System(
    key="dramatiq",
    title="Dramatiq",
    module="dramatiq_app",
    place="redis",
    tasks=10_000,
    crew=(words(f"{_DRAMATIQ} -p 2 -t 8"),),
    attentive=(words(f"{_DRAMATIQ} -p 2 -t 8"),),
    instance=words(f"{_DRAMATIQ} -p 1 -t 1"),
    results="Redis lists; the caller blocks on them",
    safety="heartbeat 10 s, maintenance at every tenth command",
)

_PROCRASTINATE = "procrastinate --log-level error --app task_peers.procrastinate_app.app worker"
PROCRASTINATE = System(
    key="procrastinate",
    title="Procrastinate",
    module="procrastinate_app",
    place="postgres",
    tasks=2_000,
    crew=(words(f"{_PROCRASTINATE} -c 20"),) * 2,
    attentive=(words(f"{_PROCRASTINATE} -c 1"),) * 2,
    instance=words(f"{_PROCRASTINATE} -c 1"),
    results="none; the row keeps the status, polled at 1 ms",
    bulk="batch_defer by 1,000",
    safety="beats every 2 s, stalled jobs retried every 3 s",
)

_POLLED = "result table; polled at 1 ms"
_REDIS = (
    CELERY,
    RQ,
    DRAMATIQ,
    taskiq("taskiq-list", "list", "", "nothing is acknowledged"),
    taskiq(
        "taskiq-stream",
        "stream",
        "--no-parse --max-prefetch 100",
        "read one by one, claimed by others after 10 s",
    ),
    huey("huey-redis", "redis", 10_000, "", "Redis hash; the caller blocks on a notice"),
)


def persistent(system: System) -> System:
    """The same with a Redis that writes an append-only file."""
    return replace(system, key=f"{system.key}-aof", place="redis-aof")


SYSTEMS = (
    tidemill("ours-sqlite", "sqlite", 1),
    tidemill("ours-pg", "postgres", 1),
    tidemill("ours-pg-2", "postgres", 2),
    huey("huey-sqlite", "sqlite", 10_000, "-d 0.001 -m 0.005 -b 1", f"{_POLLED}, as is the queue at 1 to 5"),
    huey("huey-pg", "postgres", 5_000, "", _POLLED),
    PROCRASTINATE,
    *_REDIS,
    *map(persistent, _REDIS),
)


def chosen(only: str | None) -> list[System]:
    """Those whose key is named, or begins with a name and a dash. Raises SystemExit for an unknown name."""
    if only is None:
        return list(SYSTEMS)
    found: list[System] = []
    for name in only.split(","):
        named = [each for each in SYSTEMS if each.key == name or each.key.startswith(f"{name}-")]
        if not named and name != "raw":
            raise SystemExit(f"no system is called {name}: {', '.join(each.key for each in SYSTEMS)}, raw")
        found += [each for each in named if each not in found]
    return found
