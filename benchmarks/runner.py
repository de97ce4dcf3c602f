"""What the pool of runners costs: no-op function jobs a second, and how long one takes alone.

python benchmarks/runner.py [--jobs 50000] [--runners 2]

No store takes part: jobs are handed in by this process, which hears of their ends. Also shown are jobs that
print a line, the start of a fresh runner, and a program for each job.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import quantiles

import uvloop

from tidemill.tasks.call import pickle_call, pickle_function
from tidemill.tasks.runner import Ending, Finished, Job, Listener, Plugins, Pool, Recycle


def nothing() -> None:
    """What is measured is everything around it."""


def prints() -> None:
    print("a line")


class Counter(Listener):
    """Knows when all have ended."""

    def __init__(self) -> None:
        self.failed = 0
        self._left = 0
        self._done = asyncio.Event()

    def started(self, job: Job) -> None: ...

    def progressed(self, job: Job, percent: float | None, info: str | None) -> None: ...

    def wrote(self, job: Job, stream: str, offset: int, data: bytes) -> None: ...

    def ended(self, job: Job, ending: Ending) -> None:  # noqa: ARG002 - they are counted only
        self._left -= 1
        self.failed += not (isinstance(ending, Finished) and ending.status == 1)
        if self._left == 0:
            self._done.set()

    async def run(self, pool: Pool, jobs: Sequence[Job]) -> float:
        """The seconds from handing in to the last end."""
        began = time.perf_counter()
        self._left = len(jobs)
        self._done.clear()
        pool.hand_in(jobs)
        await self._done.wait()
        return time.perf_counter() - began


def jobs_of(function: Callable[[], None], count: int, queue: str) -> list[Job]:
    payload = pickle_call(pickle_function(function), (), {})
    return [Job(f"{queue}-{number}", 1, 1, queue, "function", payload=payload) for number in range(count)]


async def throughput(pool: Pool, counter: Counter, name: str, jobs: Sequence[Job]) -> None:
    seconds = await counter.run(pool, jobs)
    print(f"{name:<34} {len(jobs) / seconds:>10,.0f} jobs/s")


async def latency(pool: Pool, counter: Counter, name: str, jobs: Sequence[Job]) -> None:
    times = [1000 * await counter.run(pool, [job]) for job in jobs]
    cuts = quantiles(times, n=100)
    print(f"{name:<34} {cuts[49]:>10.3f} ms p50 {cuts[98]:>10.3f} ms p99")


async def measure(runners: int, count: int, folder: Path) -> None:
    counter = Counter()
    plugins = Plugins(programs={"true": ["/bin/true"]})
    pool = Pool(runners, counter, plugins, folder / "warm", Recycle(tasks=10**9))
    await pool.start()
    await counter.run(pool, jobs_of(nothing, 1000, "warm up"))
    await throughput(pool, counter, "no-op function", jobs_of(nothing, count, "nothing"))
    await throughput(pool, counter, "function that prints a line", jobs_of(prints, count // 5, "prints"))
    await latency(pool, counter, "no-op function, one at a time", jobs_of(nothing, 2000, "nothing"))
    programs = [Job(f"p{number}", 1, 1, "true", "plugin", "true") for number in range(200)]
    await latency(pool, counter, "program /bin/true, one at a time", programs)
    await pool.stop(1)
    fresh = Pool(1, counter, plugins, folder / "fresh", Recycle(tasks=1))
    await fresh.start()
    await counter.run(fresh, jobs_of(nothing, 1, "fresh"))
    await latency(fresh, counter, "fresh runner, job and its end", jobs_of(nothing, 200, "fresh"))
    await fresh.stop(1)
    if counter.failed:
        sys.exit(f"{counter.failed} jobs failed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--runners", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        uvloop.run(measure(arguments.runners, arguments.jobs, Path(folder)))


if __name__ == "__main__":
    main()
