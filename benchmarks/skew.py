"""Bulk loads of a join in which one key holds a third of all rows, beside the same load without such a key.

    python benchmarks/skew.py [--rows 2000000] [--keys 200000] [--turns 3]

One side has one row for each key, so both loads put out as many pairs. Each turn is a new pipeline on the
batch runtime: one insert and one step, of which the step is measured. The two take turns.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from tidemill import Pipeline
from tidemill.pipeline.runtimes.session import create_session

TABLES = """
CREATE TABLE facts (k BIGINT, x BIGINT);
CREATE TABLE dims (k BIGINT PRIMARY KEY, y BIGINT);
"""
VIEWS = {
    "inner": "SELECT f.k, f.x, d.y FROM facts f JOIN dims d ON f.k = d.k",
    "left": "SELECT f.k, f.x, d.y FROM facts f LEFT JOIN dims d ON f.k = d.k",
    "anti": "SELECT f.k, f.x FROM facts f LEFT ANTI JOIN dims d ON f.k = d.k",
}
BAR = 2.5


def facts(rows: int, keys: int, *, hot: bool) -> pa.Table:
    random = np.random.default_rng(7)
    key = random.integers(0, keys, rows)
    if hot:
        key[random.random(rows) < 1 / 3] = keys // 2
    return pa.table({"k": key, "x": np.arange(rows)})


def load(spark: SparkSession, view: str, rows: pa.Table, dims: pa.Table) -> float:
    """The seconds of the step that brings all rows."""
    with tempfile.TemporaryDirectory() as folder, Pipeline(spark, Path(folder) / "p") as pipeline:
        pipeline.sql(f"{TABLES}CREATE VIEW v AS {VIEWS[view]}")
        pipeline.step()
        pipeline.insert("dims", dims)
        pipeline.insert("facts", rows)
        return pipeline.step().seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    spark = create_session(
        master="local[2]", settings={"spark.driver.memory": "1g", "spark.log.level": "ERROR"}
    )
    dims = pa.table({"k": np.arange(asked.keys), "y": np.arange(asked.keys)})
    loads = [facts(asked.rows, asked.keys, hot=hot) for hot in (False, True)]
    print("| join | uniform, s | one key has a third, s | ratio | bar |\n|---|--:|--:|--:|--:|")
    for view in VIEWS:
        load(spark, view, loads[0].slice(0, 1000), dims)
        taken = [[load(spark, view, rows, dims) for rows in loads] for _ in range(asked.turns)]
        uniform, skewed = (statistics.median(times) for times in zip(*taken, strict=True))
        print(f"| {view} | {uniform:.2f} | {skewed:.2f} | {skewed / uniform:.2f} | {BAR} |", flush=True)


if __name__ == "__main__":
    main()
