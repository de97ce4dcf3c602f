"""Where the time of a step goes: the benchmark's workload on the inline runtime, under Python's profiler.

    python benchmarks/profile_step.py [--scale 0.1] [--steps 50] [--lines 25] [--folder PATH]

Spark only reads the SQL here; the pipeline workers run in this process, one after the other, so a bulk step
takes as long as both cores together would. The profiler itself slows down small Python calls most.
"""

import argparse
import cProfile
import pstats
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tidemill.api.pipeline import Pipeline
from tidemill.pipeline.runtimes.session import create_session
from workload import QUERY, TABLES, Sizes, Workload

_OUTSIDE = "fsync|sha256|posix.write|posix.open|acquire|argsort|searchsorted"
"""What is not ours but takes time; of these, who called them."""


class Watched:
    """A profiler for one kind of work, done many times."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.profile = cProfile.Profile()
        self.seconds = 0.0
        self.rows = 0
        self.turns = 0

    def __call__(self, act: Callable[[], object], rows: int) -> None:
        started = time.perf_counter()
        self.profile.runcall(act)
        self.seconds += time.perf_counter() - started
        self.rows += rows
        self.turns += 1

    def print(self, lines: int) -> None:
        print(f"## {self.name}: {self.turns} times, {self.seconds / self.turns * 1e3:.1f} ms each, ", end="")
        print(f"{self.rows / self.seconds:,.0f} rows/s\n")
        stats = pstats.Stats(self.profile)
        stats.sort_stats("cumulative").print_stats("/tidemill/", lines)
        stats.strip_dirs().sort_stats("tottime").print_stats(lines)
        stats.print_callers(_OUTSIDE)


@contextmanager
def opened(folder: Path) -> Iterator[Pipeline]:
    settings = {"spark.driver.memory": "1g", "spark.log.level": "ERROR"}
    spark = create_session(master="local[1]", settings=settings)
    try:
        with Pipeline(spark, folder / "pipeline", runtime="inline") as pipeline:
            pipeline.sql(TABLES + f"CREATE VIEW by_category AS {QUERY}")
            yield pipeline
    finally:
        spark.stop()


def run(folder: Path, scale: float, steps: int) -> Sequence[Watched]:
    bulk_append, bulk_step = Watched("appends of a load"), Watched("steps of a load")
    append, step = Watched("appends of 1,000 rows"), Watched("steps of 1,000 rows")
    work = Workload(folder, Sizes.of(scale))
    with opened(folder) as pipeline:
        pipeline.insert("auctions", _read(work.load_auctions()))
        pipeline.step()
        for piece in range(work.sizes.pieces):
            rows = _read(work.load_bids(piece))
            bulk_append(partial(pipeline.insert, "bids", rows), len(rows))
            bulk_step(pipeline.step, len(rows))
        for _ in range(steps):
            change = work.change(1_000)
            append(partial(pipeline.apply, change), 1_000)
            step(pipeline.step, 1_000)
    return bulk_append, bulk_step, append, step


def _read(folder: Path) -> pa.Table:
    return pq.read_table(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--lines", type=int, default=25)
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="profile-step-", dir=chosen.folder) as folder:
        for watched in run(Path(folder), chosen.scale, chosen.steps):
            watched.print(chosen.lines)


if __name__ == "__main__":
    main()
