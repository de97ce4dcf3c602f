"""TPC-H: a refresh of 0.1 % of the tables, kept by a pipeline for each query, beside Spark's full recompute.

    python benchmarks/tpch_bench.py [--sf 1] [--only q01,q15] [--together] [--json FILE] [--folder PATH]

The tables are loaded once for the scale factor and once for a tenth of it; each query's pipeline is a copy
of that with the tables that the query reads, on the batch runtime. Both get as many changed rows as a refresh
of the larger has: see `tpch/refresh.py`. A refresh is append and step together, measured once the merges that
a load leaves are done: until then, for seconds, steps share the machine with them. Spark recomputes from
Parquet in a process of its own with its default settings, and all answers after the last refresh are compared
with Spark's. Prints Markdown.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from baselines import best, plain_session
from tidemill import Pipeline
from tidemill.pipeline.runtimes.session import create_session
from tpch.data import generate, read
from tpch.refresh import Change, Count, Warehouse, counts
from tpch.views import queries, tables, tables_of
from workload import THREADS

WARM_UP = 4
TURNS = 9
RESTING = 6
"""So many steps without a merge, and there will be none: more than it takes for calm after a load."""
SMALLER = 0.1
"""How much of the scale factor the smaller tables have."""
GROWTH = 1.5
FASTER = 5
MEMORY = "3g"

Figures = dict[str, Any]
Answer = Counter[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Kept:
    """Seconds to fill a view and of each refresh of it, and what it held after the last."""

    fill_s: float
    refresh_s: list[float]
    answers: Mapping[str, Answer]

    @property
    def median_ms(self) -> float:
        return statistics.median(self.refresh_s) * 1000


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables of a scale factor and refreshes to come, in a folder.

    loaded/   as they are at first
    base/     a pipeline with these, and without views
    now/      as they will be after the last refresh
    """

    folder: Path
    scale: float
    changes: list[Change]

    @classmethod
    def make(cls, folder: Path, scale: float, sizes: Mapping[str, Count]) -> "Tables":
        files = generate(scale, folder / "loaded")
        warehouse = Warehouse({name: read(path) for name, path in files.items()})
        changes = [warehouse.refresh(sizes) for _ in range(WARM_UP + TURNS)]
        (folder / "now").mkdir()
        for name, rows in warehouse.now.items():
            pq.write_table(rows, folder / "now" / f"{name}.parquet")
        return cls(folder, scale, changes)

    def load(self, spark: SparkSession) -> None:
        started = time.perf_counter()
        with Pipeline(spark, self.folder / "base") as pipeline:
            pipeline.sql(";".join(tables().values()))
            for name in tables():
                pipeline.insert(name, spark.read.parquet(str(self.folder / "loaded" / f"{name}.parquet")))
            while pipeline.pending():
                pipeline.step()
            rest(pipeline)
        say(f"scale factor {self.scale:g} loaded in {time.perf_counter() - started:.1f} s")

    def keep(self, spark: SparkSession, views: Mapping[str, str]) -> Kept:
        """Fill the views and refresh the tables that they read."""
        place = self.folder / "pipeline"
        shutil.rmtree(place, ignore_errors=True)
        # The blobs of a pipeline never change, so that they need not be copied.
        shutil.copytree(self.folder / "base", place, ignore=shutil.ignore_patterns("blobs"))
        shutil.copytree(self.folder / "base/blobs", place / "blobs", copy_function=os.link)
        read_by_them = {name for query in views.values() for name in tables_of(query)}
        with Pipeline(spark, place) as pipeline:
            pipeline.sql(";".join(f"DROP TABLE {name}" for name in tables() if name not in read_by_them))
            pipeline.sql(";".join(f"CREATE VIEW {name} AS {query}" for name, query in views.items()))
            started = time.perf_counter()
            pipeline.step()
            fill_s = time.perf_counter() - started
            rest(pipeline)
            seconds = [self._turn(pipeline, change, read_by_them) for change in self.changes][WARM_UP:]
            return Kept(fill_s, seconds, {name: answer(pipeline.view(name).to_arrow()) for name in views})

    def _turn(self, pipeline: Pipeline, change: Change, names: set[str]) -> float:
        chosen = {name: rows for name, rows in change.items() if name in names}
        started = time.perf_counter()
        pipeline.apply(chosen)
        pipeline.step()
        return time.perf_counter() - started


def rest(pipeline: Pipeline) -> None:
    """Make steps without rows until the merges are done that a load leaves: none shall run beside a turn."""
    engine, still = pipeline._engine_open(), 0
    while still < RESTING:
        before = set(engine.runs.names())
        pipeline.step()
        engine._merging.wait()
        still = still + 1 if set(engine.runs.names()) == before else 0


def answer(rows: pa.Table) -> Answer:
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# Spark's recompute


def recompute(folder: Path, scale: float, names: Sequence[str]) -> dict[str, float]:
    """The seconds that Spark takes for each query, best of two after a first; its answers, as files."""
    found = {}
    views = queries(scale)
    with plain_session(folder, MEMORY) as spark:
        for name in tables():
            spark.read.parquet(str(folder / "now" / f"{name}.parquet")).createOrReplaceTempView(name)
        for name in names:
            frame = spark.sql(views[name])
            pq.write_table(frame.toArrow(), folder / f"{name}.parquet")
            found[name], _ = best(2, lambda: frame.write.format("noop").mode("overwrite").save())  # noqa: B023
            say(f"{name}: Spark {found[name]:.2f} s")
    return found


def recomputed(data: Tables, names: Sequence[str]) -> dict[str, float]:
    """As `recompute`, in a process of its own."""
    command = [sys.executable, __file__, "--recompute", str(data.folder), "--sf", str(data.scale)]
    done = subprocess.run(
        [*command, "--only", ",".join(names)], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def check(data: Tables, kept: Kept) -> None:
    """Exit when an answer of a pipeline is not Spark's."""
    for name, rows in kept.answers.items():
        if rows != answer(pq.read_table(data.folder / f"{name}.parquet")):
            raise SystemExit(f"{name} at scale factor {data.scale:g} is not what Spark answers")


# The whole


def measure(folder: Path, scale: float, names: Sequence[str], *, together: bool) -> Figures:
    """Each query with few and with many rows, then Spark's recompute."""
    few, many = (
        Tables.make(folder / str(at), at, counts(scale)) for at in (round(scale * SMALLER, 6), scale)
    )
    settings = {"spark.driver.memory": MEMORY, "spark.log.level": "ERROR"}
    spark = create_session(master=f"local[{THREADS}]", settings=settings)
    try:
        few.load(spark)
        many.load(spark)
        small, large = {}, {}
        for name in names:
            small[name] = few.keep(spark, {name: queries(few.scale)[name]})
            large[name] = many.keep(spark, {name: queries(scale)[name]})
            say(f"{name}: {small[name].median_ms:.0f} ms, {large[name].median_ms:.0f} ms")
        every = many.keep(spark, {name: queries(scale)[name] for name in names}) if together else None
    finally:
        spark.stop()
    recomputed(few, names)
    spark_s = recomputed(many, names)
    for name in names:
        check(few, small[name])
        check(many, large[name])
    found = {
        "scale": scale,
        "changed": {name: rows.num_rows for name, rows in many.changes[-1].items()},
        "queries": {name: _figures(small[name], large[name], spark_s[name]) for name in names},
    }
    if every is not None:
        check(many, every)
        found["together"] = {
            "large_ms": every.median_ms,
            "fill_s": every.fill_s,
            "spark_s": sum(spark_s.values()),
        }
    return found


def _figures(small: Kept, large: Kept, spark_s: float) -> Figures:
    return {
        "small_ms": small.median_ms,
        "large_ms": large.median_ms,
        "growth": large.median_ms / small.median_ms,
        "fill_s": large.fill_s,
        "spark_s": spark_s,
        "times": spark_s * 1000 / large.median_ms,
        "each_ms": [round(seconds * 1000) for seconds in large.refresh_s],
    }


def report(figures: Figures) -> Iterator[str]:
    """Tables in Markdown."""
    scale, found = figures["scale"], figures["queries"]
    changed = ", ".join(f"{rows:,} of {name}" for name, rows in figures["changed"].items())
    yield f"Changed rows of a refresh: {changed}.\n"
    sizes = f"SF {scale * SMALLER:g}, ms | SF {scale:g}, ms"
    yield f"| query | {sizes} | growth | fill, s | Spark, s | times faster |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for name, one in found.items():
        growth = f"**{one['growth']:.2f}**" if one["growth"] > GROWTH else f"{one['growth']:.2f}"
        times = f"**{one['times']:.1f}**" if one["times"] < 1 else f"{one['times']:.1f}"
        yield (
            f"| {name} | {one['small_ms']:.0f} | {one['large_ms']:.0f} | {growth} "
            f"| {one['fill_s']:.1f} | {one['spark_s']:.2f} | {times} |"
        )
    if every := figures.get("together"):
        times = every["spark_s"] * 1000 / every["large_ms"]
        yield (
            f"| all in one pipeline | | {every['large_ms']:.0f} | | {every['fill_s']:.1f} "
            f"| {every['spark_s']:.2f} | {times:.1f} |"
        )
    yield "\n| bar | measured | wanted |\n|---|--:|--:|"
    faster, grown = ([one[name] for one in found.values()] for name in ("times", "growth"))
    mean = statistics.geometric_mean
    yield f"| times faster than recompute, geometric mean | {mean(faster):.1f} | {FASTER} |"
    yield f"| the least of them | {min(faster):.1f} | 1 |"
    yield f"| time with ten times the rows, geometric mean | {mean(grown):.2f} | {GROWTH} |"
    yield f"| the most of them | {max(grown):.2f} | |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sf", type=float, default=1.0, help="scale factor; 1 is 8.7 million rows")
    parser.add_argument("--only", default="", help="names of queries, with commas between")
    parser.add_argument("--together", action="store_true", help="also all of them in one pipeline")
    parser.add_argument("--json", type=Path, help="also write all figures there")
    parser.add_argument("--folder", type=Path, help="where to work; what it makes there is removed")
    parser.add_argument("--recompute", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(queries(options.sf))
    if unknown := set(names) - set(queries(options.sf)):
        parser.error(f"no such query: {', '.join(sorted(unknown))}")
    if options.recompute:
        print(json.dumps(recompute(options.recompute, options.sf, names)))
        return
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-tpch-", dir=options.folder))
    try:
        figures = measure(folder, options.sf, names, together=options.together)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    print("\n".join(report(figures)))


if __name__ == "__main__":
    main()
