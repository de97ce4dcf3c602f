"""Nexmark: what each query takes in on the batch runtime, beside Structured Streaming where that can run it.

    python benchmarks/nexmark_bench.py [--events 1000000] [--step 100000] [--only q3,q7] [--json FILE]

Both read the same Parquet files, a step's events at a time, on two cores. Each query has a pipeline of its
own with the tables that it reads; the first half of the events fills it, the second half is measured, append
and step together. Afterwards the view is compared with Spark's batch answer on all files.
`nexmark_streaming.py` says what Structured Streaming does, which throws away what comes out, while a pipeline
keeps it. Prints Markdown, in events per second and core: as published, these are all events of a step, also
those of tables that a query does not read.
"""

import argparse
import json
import math
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import nexmark_streaming
from engine_report import table
from nexmark.catalog import FUNCTIONS, QUERIES, TABLES, reads
from nexmark.generator import Nexmark, side_input
from tidemill import Pipeline
from tidemill.pipeline.runtimes.session import create_session
from workload import THREADS

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Files:
    """Parquet of all events: a folder for each table, in it one for each step with a file for each core."""

    folder: Path
    steps: int
    events: int
    """Of one step."""

    @classmethod
    def write(cls, folder: Path, steps: int, events: int) -> "Files":
        market = Nexmark()
        for step in range(steps):
            for name, rows in market.events(step * events, (step + 1) * events).items():
                _write(rows, folder / name / f"{step:04}", step)
        _write(side_input(), folder / "side_input" / "0000", 0)
        return cls(folder, steps, events)

    def frame(self, spark: SparkSession, name: str, step: int | None = None) -> DataFrame:
        """A table's rows of one step, or all."""
        place = self.folder / name / ("*" if step is None else f"{step:04}")
        return spark.read.parquet(str(place))


def _write(rows: pa.Table, folder: Path, step: int) -> None:
    folder.mkdir(parents=True)
    half = -(-rows.num_rows // THREADS)
    for part in range(THREADS):
        file = folder / f"part-{part}.parquet"
        pq.write_table(rows.slice(part * half, half), file)
        os.utime(file, (step, step))  # Structured Streaming takes the oldest first


def keep(spark: SparkSession, files: Files, name: str, place: Path) -> Figures:
    """Run a query's pipeline over all files, and compare; the seconds of each measured step, and its rows."""
    wanted = reads(QUERIES[name])
    seconds = []
    with Pipeline(spark, place) as p:
        for statement in (*(TABLES[read] for read in wanted), f"CREATE VIEW {name} AS {QUERIES[name]}"):
            p.sql(statement)
        if "side_input" in wanted:
            p.insert("side_input", files.frame(spark, "side_input"))
        for step in range(files.steps):
            started = time.perf_counter()
            for read in wanted:
                if read != "side_input":
                    p.insert(read, files.frame(spark, read, step))
            p.step()
            seconds.append(time.perf_counter() - started)
        rows, hashes = checksum(p.view(name).to_spark())
    for read in wanted:
        files.frame(spark, read).createOrReplaceTempView(read)
    expected = checksum(spark.sql(QUERIES[name]))
    for read in wanted:
        spark.catalog.dropTempView(read)
    assert (rows, hashes) == expected, f"{name}: {rows} rows that are not the {expected[0]} of Spark"
    return {"seconds": seconds[files.steps // 2 :], "rows": rows}


def checksum(frame: DataFrame) -> tuple[int, Decimal]:
    """How many rows there are, and a sum of their hashes: equal for equal bags of rows."""
    hashed = f.xxhash64(*frame.columns).cast("decimal(38, 0)")
    [(rows, hashes)] = frame.agg(f.count("*"), f.sum(hashed)).collect()
    return rows, hashes


def run(names: Sequence[str], files: Files, folder: Path, memory: str) -> dict[str, Figures]:
    """What `keep` finds, by query; the first query runs twice and counts the second time, to warm up."""
    settings = {"spark.driver.memory": memory, "spark.log.level": "ERROR"}
    spark = create_session(master=f"local[{THREADS}]", settings=settings)
    found = {}
    try:
        spark.sql(FUNCTIONS)
        for at, name in enumerate([names[0], *names]):
            place = folder / f"pipeline-{at}"
            found[name] = keep(spark, files, name, place)
            shutil.rmtree(place)
            say(f"{name}: {found[name]}")
    finally:
        spark.stop()
    return found


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def figures_of(
    names: Sequence[str], files: Files, ours: dict[str, Figures], theirs: dict[str, Figures]
) -> list[Figures]:
    """One line for each query."""
    lines = []
    for name in names:
        line: Figures = {"query": name, "title": _title(name)}
        line |= rates("ours", files.events, ours[name]["seconds"])
        their = theirs.get(name, {})
        if "seconds" in their:
            if their["mode"] == "append" and "GROUP BY" not in QUERIES[name]:
                assert their["rows"] == ours[name]["rows"], f"{name}: Structured Streaming lost some rows"
            line |= rates("streaming", files.events, their["seconds"])
            line["times"] = line["ours_per_core"] / line["streaming_per_core"]
        line |= {key: their[key] for key in ("mode", "refused") if key in their}
        lines.append(line)
    return lines


def rates(whose: str, events: int, seconds: Sequence[float]) -> Figures:
    """Events per second and core: of all measured steps, and at the first quartile of their times."""
    quartile = statistics.quantiles(seconds, n=4)[0] if len(seconds) > 1 else seconds[0]
    return {
        f"{whose}_per_core": events * len(seconds) / sum(seconds) / THREADS,
        f"{whose}_per_core_quartile": events / quartile / THREADS,
        f"{whose}_seconds": list(seconds),
    }


def _title(name: str) -> str:
    """The first words of the query's comment."""
    return re.split(r"[:.,;]", QUERIES[name].removeprefix("-- "), maxsplit=1)[0].strip()


def report(lines: Sequence[Figures]) -> str:
    head = ("query", "events/s/core", "Structured Streaming", "times", "")
    rows = []
    for line in lines:
        cells = [f"{line['query']} {line['title'].lower()}", f"{line['ours_per_core']:,.0f}"]
        if "times" in line:
            cells += [f"{line['streaming_per_core']:,.0f}", f"{line['times']:.1f}", f"{line['mode']} mode"]
        else:
            cells += ["cannot", "", line["refused"]] if "refused" in line else ["", "", ""]
        rows.append(cells)
    times = [line["times"] for line in lines if "times" in line]
    text = table(head, rows)
    if times:
        mean = math.exp(statistics.fmean(map(math.log, times)))
        text += f"\n\nGeometric mean of the {len(times)} that Structured Streaming can run: {mean:.1f} times."
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--step", type=int, default=100_000, help="events of a step")
    parser.add_argument("--only", default="", help="queries, with commas between")
    parser.add_argument("--alone", action="store_true", help="without Structured Streaming")
    parser.add_argument("--memory", default="2g", help="heap of each Spark driver")
    parser.add_argument("--folder", type=Path, help="where to work; what it makes there is removed")
    parser.add_argument("--json", type=Path, help="also write all figures there")
    chosen = parser.parse_args()
    names = chosen.only.split(",") if chosen.only else list(QUERIES)
    if unknown := set(names) - set(QUERIES):
        parser.error(f"no such query: {', '.join(sorted(unknown))}")
    folder = Path(tempfile.mkdtemp(prefix="bench-nexmark-", dir=chosen.folder))
    try:
        files = Files.write(folder / "events", chosen.events // chosen.step, chosen.step)
        ours = run(names, files, folder, chosen.memory)
        theirs = {} if chosen.alone else nexmark_streaming.measure(files.folder, names, chosen.memory)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    lines = figures_of(names, files, ours, theirs)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(lines, indent=1) + "\n")
    print(report(lines))
    print(
        f"\n{files.steps} steps of {chosen.step:,} events, the second half measured; {os.cpu_count()} cores."
    )


if __name__ == "__main__":
    main()
