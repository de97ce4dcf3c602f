"""Each operator: a change of 1,000 rows with little and with much state, beside Spark's recompute.

    python benchmarks/operators.py [--small 100000] [--large 3000000] [--only join,median] [--json FILE]

Each view of `operator_views.py` is kept by a pipeline of its own on the inline runtime with one worker, so
that the growth of the work is seen and not hidden behind Spark's fixed costs. A change is half insertions, a
quarter deletions and a quarter updates of facts, and a few changes of dims. With little state the answer is
compared with Spark's row by row, with much by the number of its rows. Prints Markdown.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from baselines import best, plain_session
from operator_views import CASES, FACTS_PER_KEY, GROUPS, TABLES, Case
from tidemill import Pipeline
from tidemill.pipeline.runtimes.session import create_session

ROWS = 1000
WARM_UP = 6
TURNS = 20
PIECE = 500_000
GROWTH = 1.4
START_US = 1_700_000_000_000_000

Figures = dict[str, Any]


class Facts:
    """The rows of both tables, and changes to them."""

    def __init__(self, size: int, seed: int = 5) -> None:
        self.random = np.random.default_rng(seed)
        self.keys = size // FACTS_PER_KEY
        self.live = self._draw(size)
        self.y = self.random.integers(0, 1000, self.keys)

    def _draw(self, rows: int) -> pa.Table:
        """Times go as far as the rows do, so that a second has as many facts in any size."""
        span_us = self.keys * 1_000_000
        moments = START_US + self.random.integers(0, span_us, rows)
        return pa.table(
            {
                "k": self.random.integers(0, self.keys, rows),
                "g": pa.array(self.random.integers(0, GROUPS, rows), pa.int32()),
                "v": self.random.integers(0, 2**40, rows),
                "x": self.random.random(rows),
                "at": pa.array(moments, pa.timestamp("us", "UTC")),
                "s": pa.array(["a", "b", "c", "d"]).take(pa.array(self.random.integers(0, 4, rows))),
            }
        )

    @property
    def dims(self) -> pa.Table:
        return pa.table({"id": np.arange(self.keys), "y": self.y})

    def change(self) -> dict[str, pa.Table]:
        """The next change of both tables."""
        gone = self.random.choice(self.live.num_rows, ROWS // 4 + ROWS // 8, replace=False)
        taken, new = self.live.take(pa.array(gone)), self._draw(ROWS // 2 + ROWS // 8)
        kept = np.ones(self.live.num_rows, np.bool_)
        kept[gone] = False
        self.live = pa.concat_tables([self.live.filter(pa.array(kept)), new]).combine_chunks()
        moved = self.random.choice(self.keys, 10, replace=False)
        self.y[moved] = self.random.integers(0, 1000, len(moved))
        return {
            "facts": pa.concat_tables([_weighted(new, 1), _weighted(taken, -1)]),
            "dims": _weighted(pa.table({"id": moved, "y": self.y[moved]}), 1),
        }


def _weighted(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column("_weight", pa.array(np.full(rows.num_rows, weight, np.int64)))


@dataclass(frozen=True, slots=True)
class Measured:
    """Milliseconds of a change, and what it put out."""

    quartile_ms: float
    load_s: float
    rows_in_view: int


@dataclass(frozen=True, slots=True)
class Bench:
    """A pipeline for each case; after the same changes, so that all end with the same facts."""

    spark: SparkSession
    folder: Path

    def case(self, name: str, case: Case, small: int, large: int) -> Figures:
        """What a change takes with little and with much state."""
        few = self.keep(case, small, compare=True)
        many = self.keep(case, large, compare=False)
        return {
            "operator": name,
            "cost": case.cost,
            "flat": case.flat,
            "small_ms": few.quartile_ms,
            "large_ms": many.quartile_ms,
            "growth": many.quartile_ms / few.quartile_ms,
            "load_rows_per_s": large / many.load_s,
            "rows": many.rows_in_view,
        }

    def keep(self, case: Case, size: int, *, compare: bool) -> Measured:
        """Load a pipeline with the view, then change it."""
        place, facts = self.folder / "pipeline", Facts(size)
        shutil.rmtree(place, ignore_errors=True)
        with Pipeline(self.spark, place, runtime="inline", workers=1) as p:
            p.sql(f"{TABLES}; CREATE VIEW view AS {case.query}")
            started = time.perf_counter()
            p.insert("dims", facts.dims)
            for at in range(0, size, PIECE):
                p.insert("facts", facts.live.slice(at, PIECE))
                p.step()
            load_s = time.perf_counter() - started
            turns = [self._turn(p, facts) for _ in range(WARM_UP + TURNS)][WARM_UP:]
            view = p.view("view").to_arrow()
        pq.write_table(facts.live, self.folder / "facts.parquet")
        pq.write_table(facts.dims, self.folder / "dims.parquet")
        if compare:
            self._compare(case, view)
        # The first quartile: neighbours on a shared machine only ever make a turn slower.
        return Measured(statistics.quantiles(turns, n=4)[0] * 1000, load_s, view.num_rows)

    def _turn(self, p: Pipeline, facts: Facts) -> float:
        change = facts.change()
        started = time.perf_counter()
        p.apply(change)
        p.step()
        return time.perf_counter() - started

    def _compare(self, case: Case, view: pa.Table) -> None:
        answer = asked(self.spark, self.folder, case)
        ours, theirs = _rounded(self.spark.createDataFrame(view, answer.schema)), _rounded(answer)
        assert (extra := ours.exceptAll(theirs).head(3)) == [], f"too many: {extra}"
        assert (missing := theirs.exceptAll(ours).head(3)) == [], f"missing: {missing}"


def asked(spark: SparkSession, folder: Path, case: Case) -> DataFrame:
    """Spark's answer from the files of both tables."""
    for name in ("facts", "dims"):
        spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    return spark.sql(case.asked)


def recompute(folder: Path, names: Sequence[str]) -> dict[str, tuple[float, int]]:
    """For each case the seconds that Spark as it comes takes for all rows, best of two, and how many."""
    found = {}
    with plain_session(folder, "3g") as spark:
        for name in names:
            answer = asked(spark, folder, CASES[name])
            count = answer.count()
            seconds, _ = best(2, lambda: answer.write.format("noop").mode("overwrite").save())  # noqa: B023
            found[name] = (seconds, count)
    return found


def _rounded(frame: DataFrame) -> DataFrame:
    """Floats to nine digits: Spark adds them in any order."""
    columns = [
        f.format_string("%.9e", f.col(name)).alias(name) if kind == "double" else f.col(name)
        for name, kind in frame.dtypes
    ]
    return frame.select(columns)


def report(figures: list[Figures], small: int, large: int) -> Iterator[str]:
    """A table in Markdown."""
    sizes = f"{small:,} facts, ms | {large:,} facts, ms"
    yield f"| operator | cost | {sizes} | growth | load rows/s | Spark, s | times faster |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|"
    for one in figures:
        missed = one["flat"] and one["growth"] > GROWTH
        growth = f"**{one['growth']:.2f}**" if missed else f"{one['growth']:.2f}"
        yield (
            f"| {one['operator']} | {one['cost']} | {one['small_ms']:.0f} | {one['large_ms']:.0f} | {growth} "
            f"| {one['load_rows_per_s']:,.0f} | {one.get('spark_s', 0):.2f} | {one.get('times', 0):.0f} |"
        )


def in_its_own_process(folder: Path, names: Sequence[str]) -> dict[str, tuple[float, int]]:
    command = [sys.executable, __file__, "--recompute", str(folder), "--only", ",".join(names)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, tuple[float, int]] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(names: Sequence[str], small: int, large: int, *, alone: bool) -> list[Figures]:
    folder = Path(tempfile.mkdtemp(prefix="tidemill-operators-"))
    settings = {"spark.driver.memory": "2g", "spark.log.level": "ERROR"}
    spark = create_session(master="local[2]", settings=settings)
    figures = []
    try:
        for name in names:
            figures.append(Bench(spark, folder).case(name, CASES[name], small, large))
            print(figures[-1], file=sys.stderr, flush=True)
        spark.stop()
        theirs = {} if alone else in_its_own_process(folder, names)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for one in figures if theirs else ():
        seconds, count = theirs[one["operator"]]
        assert one["rows"] == count, f"{one['operator']}: {one['rows']} rows, and Spark has {count}"
        one |= {"spark_s": seconds, "times": seconds * 1000 / one["large_ms"]}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--small", type=int, default=100_000)
    parser.add_argument("--large", type=int, default=3_000_000)
    parser.add_argument("--only", default="", help="names or parts of them, with commas between")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--alone", action="store_true", help="without Spark's recompute")
    parser.add_argument("--recompute", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    parts = [part for part in options.only.split(",") if part]
    names = [name for name in CASES if not parts or any(part in name for part in parts)]
    if options.recompute:
        exact = [name for name in names if name in parts]
        print(json.dumps(recompute(options.recompute, exact)))
        return
    figures = measure(names, options.small, options.large, alone=options.alone)
    print("\n".join(report(figures, options.small, options.large)))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
