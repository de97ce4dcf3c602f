"""The incremental engine on Spark (batch runtime) against Spark, Structured Streaming and DuckDB, in one run.

    python benchmarks/engine.py [--scale 0.1] [--only load,steps] [--json FILE] [--folder PATH]

A view counts bids and adds up their prices by the category of their auction. It is loaded in appends, changed
in steps of 100 to 100,000 rows at a tenth of its size and at all of it, and after each phase compared with
DuckDB's answer to the same query on the same rows. `workload.py` says what a change is, `baselines.py` what
the others do. Prints Markdown; the bars hold at scale 1 only, since others have fixed costs too.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from baselines import measure
from engine_report import report
from footprint import Footprint
from tidemill.api.pipeline import Pipeline
from tidemill.pipeline.runtimes.session import create_session
from workload import QUERY, TABLES, THREADS, Sizes, Workload, arrow_answer

VIEW = "by_category"
PARTS = ("load", "steps", "tail", "spark", "streaming", "duckdb", "write")
TURNS = {100: 30, 1_000: 30, 10_000: 30, 100_000: 10}
WARM_UP = 60
TAIL = 500

Figures = dict[str, Any]


@dataclass
class Load:
    """Rows and seconds of appends and of the steps that take them."""

    rows: int = 0
    stage_s: float = 0.0
    step_s: float = 0.0
    commit_s: float = 0.0

    def plus(self, other: "Load") -> "Load":
        return Load(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def rates(self) -> Figures:
        total = self.stage_s + self.step_s + self.commit_s
        return {
            "rows": self.rows,
            "stage_rows_per_s": self.rows / self.stage_s,
            "step_rows_per_s": self.rows / (self.step_s + self.commit_s),
            "rows_per_s": self.rows / total,
        }


@dataclass
class Bench:
    """A pipeline under measurement, with the model that knows what it must answer."""

    spark: SparkSession
    pipeline: Pipeline
    work: Workload
    parts: Sequence[str]
    footprint: Footprint = field(default_factory=Footprint)
    figures: Figures = field(default_factory=dict)

    def run(self) -> Figures:
        self.pipeline.sql(TABLES + f"CREATE VIEW {VIEW} AS {QUERY}")
        auctions, bids = Load(), Load()
        self.append("auctions", self.work.load_auctions(), self.work.sizes.auctions, auctions)
        pieces = self.work.sizes.pieces
        for piece in range(pieces):
            self.append("bids", self.work.load_bids(piece), self.work.sizes.piece, bids)
            if piece == 0:
                self.check("the first piece")
                self.steps("small")
        bids.commit_s = timed(self.pipeline.checkpoint)
        self.figures["load"] = {
            "auctions": auctions.rates(),
            "bids": bids.rates(),
            "all": auctions.plus(bids).rates(),
        }
        self.figures["memory"] = self.footprint.figures()
        self.check("the load")
        self.steps("full")
        self.tail()
        self.figures["bids"] = self.work.bids
        return self.figures

    def append(self, table: str, rows: Path, count: int, load: Load) -> None:
        frame = self.spark.read.parquet(str(rows))
        with self.footprint.watch():
            stage_s = timed(lambda: self.pipeline.insert(table, frame))
            step_s = timed(self.pipeline.step)
        say(f"{table}: {count:,} rows: {stage_s:.2f} s to stage, {step_s:.2f} s to step")
        load.rows += count
        load.stage_s += stage_s
        load.step_s += step_s

    def steps(self, mark: str) -> None:
        """Changes of every size; first some that are not counted, since the JVM is slow at first."""
        if "steps" not in self.parts:
            return
        bids = self.work.bids
        self.changes(1_000, WARM_UP)
        found = {rows: self.changes(rows, turns) for rows, turns in TURNS.items() if rows <= bids}
        self.figures[f"steps_{mark}"] = {"bids": bids, "by_rows": found}

    def tail(self) -> None:
        if "tail" in self.parts:
            self.figures["tail"] = self.changes(1_000, TAIL)

    def changes(self, rows: int, turns: int) -> Figures:
        append_s, step_s = [], []
        for _ in range(turns):
            change = self.work.change(rows)
            append_s.append(timed(partial(self.pipeline.apply, change)))
            step_s.append(timed(self.pipeline.step))
        self.check(f"{turns} changes of {rows:,} rows")
        both = np.add(append_s, step_s)
        say(f"{self.work.bids:,} bids, changes of {rows:,} rows: {np.median(both) * 1e3:.0f} ms")
        return {"append": spread(append_s), "step": spread(step_s), "both": spread(both)}

    def check(self, after: str) -> None:
        """Exit when the view is wrong."""
        if arrow_answer(self.pipeline.view(VIEW).to_arrow()) != self.work.answer():
            raise SystemExit(f"after {after} the view is not what DuckDB answers")


def timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def spread(seconds: Sequence[float] | np.ndarray) -> Figures:
    """In milliseconds."""
    median, p90, p99 = np.percentile(seconds, [50, 90, 99]) * 1e3
    return {"median": median, "p90": p90, "p99": p99, "max": float(np.max(seconds)) * 1e3}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_engine(work: Workload, parts: Sequence[str], memory: str) -> Figures:
    spark = create_session(
        master=f"local[{THREADS}]", settings={"spark.driver.memory": memory, "spark.log.level": "ERROR"}
    )
    try:
        warm_up(spark, work.folder / "warm-up")
        with Pipeline(spark, work.folder / "pipeline") as pipeline:
            return Bench(spark, pipeline, work, parts).run()
    finally:
        spark.stop()


def warm_up(spark: SparkSession, folder: Path) -> None:
    """Spark's first jobs take seconds, whatever they do; the others run once before they are timed too."""
    work = Workload(folder, Sizes(1_000, 10_000, 10))
    with Pipeline(spark, folder / "pipeline") as pipeline:
        pipeline.sql(TABLES + f"CREATE VIEW {VIEW} AS {QUERY}")
        pipeline.insert("auctions", spark.read.parquet(str(work.load_auctions())))
        for piece in range(5):
            pipeline.insert("bids", spark.read.parquet(str(work.load_bids(piece))))
            pipeline.step()


def run_baselines(work: Workload, parts: Sequence[str], memory: str) -> Figures:
    """The others, on the tables as the engine's changes have left them; loads on what it loaded."""
    now = work.write_tables() if {"spark", "duckdb"} & set(parts) else None
    loaded = work.folder / "auctions", work.folder / "bids"
    figures: Figures = {}
    for name in ("spark", "streaming", "duckdb", "write"):
        if name in parts:
            auctions, bids = now if now and name in ("spark", "duckdb") else loaded
            figures[name] = measure(name, auctions, bids, memory)
            say(f"{name}: {figures[name]['seconds']:.2f} s")
    if "duckdb" in figures:
        answer = [tuple(row) for row in figures["duckdb"].pop("answer")]
        assert answer == work.answer(), "the files are not the model"
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="1 is a million auctions, ten million bids")
    parser.add_argument("--only", default=",".join(PARTS), help="of " + ",".join(PARTS))
    parser.add_argument("--memory", default="3g", help="heap of each Spark driver")
    parser.add_argument("--folder", type=Path, help="where to work; what it makes there is removed")
    parser.add_argument("--json", type=Path, help="also write all figures there")
    chosen = parser.parse_args()
    parts = chosen.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    folder = Path(tempfile.mkdtemp(prefix="bench-engine-", dir=chosen.folder))
    try:
        work = Workload(folder, Sizes.of(chosen.scale))
        figures: Figures = {"scale": chosen.scale, "cores": os.cpu_count(), "busy": [os.getloadavg()[1]]}
        if {"load", "steps", "tail"} & set(parts):
            figures |= run_engine(work, parts, chosen.memory)
        else:
            work.load_all()
        figures["busy"].append(os.getloadavg()[1])
        figures |= run_baselines(work, parts, chosen.memory)
        figures["busy"].append(os.getloadavg()[1])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(figures, indent=1) + "\n")
    print(report(figures))


if __name__ == "__main__":
    main()
