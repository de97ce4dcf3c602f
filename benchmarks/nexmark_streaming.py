"""Nexmark in Structured Streaming: each query as it is, in append or else in update mode, with a watermark.

    python benchmarks/nexmark_streaming.py EVENTS --only q0,q3 [--memory 2g]

EVENTS is a folder as `nexmark_bench.py` writes it. Each table is a stream of its files, as many at a time as
a step has, with a watermark of four seconds on its event time; what comes out is thrown away. The last line
of output is, by query, the seconds of the second half of the batches and how many rows came out in all, or
what Spark says of a query that it refuses.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from baselines import STREAMING, plain_session
from nexmark.catalog import FUNCTIONS, QUERIES, reads
from tidemill.sql.catalyst.session import unlogged
from workload import THREADS

MODES = ("append", "update")
WATERMARK = "4 seconds"
TIMES = {"q12": "arrived"}
"""The column that has the watermark, where it is not `date_time`."""
PROGRESS = "spark.sql.streaming.numRecentProgressUpdates"

Figures = dict[str, Any]


def measure(events: Path, names: Sequence[str], memory: str) -> dict[str, Figures]:
    """Run the queries in a process of their own. Raises when it fails."""
    command = [sys.executable, __file__, str(events), "--only", ",".join(names), "--memory", memory]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Figures] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(spark: SparkSession, events: Path, name: str, place: Path) -> Figures:
    """In the first mode in which Spark takes the query; or why it takes it in none."""
    refused = []
    for mode in MODES:
        try:
            with unlogged():
                return {"mode": mode, **stream(spark, events, name, mode, place / mode)}
        except PySparkException as error:
            refused.append(_reason(error))
    return {"refused": "; ".join(dict.fromkeys(refused))}


def stream(spark: SparkSession, events: Path, name: str, mode: str, place: Path) -> Figures:
    """Let the query take all files, batch by batch, and end. Raises what Spark raises."""
    for table in reads(QUERIES[name]):
        rows = spark.read.parquet(str(events / table / "*"))
        if table != "side_input":
            reader = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", THREADS)
            rows = reader.parquet(str(events / table / "*"))
            rows = rows.withWatermark(TIMES.get(name, "date_time"), WATERMARK)
        rows.createOrReplaceTempView(table)
    writer = spark.sql(QUERIES[name]).writeStream.format("noop").outputMode(mode)
    query = writer.option("checkpointLocation", str(place)).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    batches = [batch for batch in query.recentProgress if batch["numInputRows"]]
    seconds = [batch["durationMs"]["triggerExecution"] / 1000 for batch in batches]
    rows_out = sum(batch["sink"]["numOutputRows"] for batch in query.recentProgress)
    return {"seconds": seconds[len(seconds) // 2 :], "batches": len(batches), "rows": rows_out}


def _reason(error: PySparkException) -> str:
    """Spark's name for it; what has none yet is told by its first sentence."""
    condition = error.getCondition() or "LEGACY"
    return str(error).partition(". ")[0] if "LEGACY" in condition else condition


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("events", type=Path)
    parser.add_argument("--only", default=",".join(QUERIES))
    parser.add_argument("--memory", default="2g")
    chosen = parser.parse_args()
    names = chosen.only.split(",")
    folder = Path(tempfile.mkdtemp(dir=chosen.events.parent))
    found = {}
    try:
        with plain_session(folder, chosen.memory, **STREAMING, **{PROGRESS: "100000"}) as spark:
            spark.sql(FUNCTIONS)
            # The first is run twice and counts the second time, since Spark's first jobs are slow.
            for at, name in enumerate([names[0], *names]):
                found[name] = run(spark, chosen.events, name, folder / f"checkpoint-{at}")
                print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
