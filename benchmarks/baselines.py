"""What others take for the same query, each in a process of its own with its own settings.

    python benchmarks/baselines.py spark|write|streaming|duckdb AUCTIONS BIDS [--memory 2g]

AUCTIONS and BIDS are folders of Parquet. The last line of output is the figures as JSON. Whoever answers the
query is checked against DuckDB, and DuckDB against the model of whoever asks.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidemill.pipeline.runtimes.java import prepare_java
from workload import QUERY, THREADS, Answer

SMALL_ROWS = 1000
SMALL_STEPS = 15
PATIENCE_S = 900.0
STREAMING = {
    "spark.sql.shuffle.partitions": str(THREADS),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Settings with which Structured Streaming is at its best on one machine."""

Figures = dict[str, Any]


def measure(name: str, auctions: Path, bids: Path, memory: str) -> Figures:
    """Run a baseline in a process of its own. Raises when it fails."""
    command = [sys.executable, __file__, name, str(auctions), str(bids), "--memory", memory]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def best(turns: int, act: Callable[[], object]) -> tuple[float, list[float]]:
    """The seconds of the quickest turn, and of all."""
    seconds = []
    for _ in range(turns):
        start = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - start)
    return min(seconds), seconds


@contextmanager
def plain_session(folder: Path, memory: str, **settings: str) -> Iterator[SparkSession]:
    """Spark as it comes, on two cores; it only listens on loopback, and leaves nothing behind."""
    prepare_java()
    builder = SparkSession.builder.master(f"local[{THREADS}]").config(
        map={
            "spark.driver.memory": memory,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(folder),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            **settings,
        }
    )
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def run_spark(auctions: Path, bids: Path, folder: Path, memory: str) -> Figures:
    """The whole query from Parquet, warm, adaptive; with as many shuffle partitions as by default and two."""
    with plain_session(folder, memory) as spark:
        spark.read.parquet(str(auctions)).createOrReplaceTempView("auctions")
        spark.read.parquet(str(bids)).createOrReplaceTempView("bids")

        def answer() -> Answer:
            return sorted(tuple(row) for row in spark.sql(QUERY).collect())

        assert answer() == _duckdb_answer(auctions, bids), "Spark and DuckDB differ"
        seconds, every = best(3, answer)
        spark.conf.set("spark.sql.shuffle.partitions", str(THREADS))
        answer()
        fewer, every_fewer = best(3, answer)
        return {"seconds": min(seconds, fewer), "default": every, "two_partitions": every_fewer}


def run_write(auctions: Path, bids: Path, folder: Path, memory: str) -> Figures:  # noqa: ARG001
    """Bids spread by key and written as Parquet: the least that a load by Spark would do."""
    with plain_session(folder, memory) as spark:
        rows = spark.read.parquet(str(bids), recursiveFileLookup=True)

        def write() -> None:
            rows.repartition(THREADS, "auction").write.mode("overwrite").parquet(str(folder / "out"))

        seconds, every = best(3, write)
        return {"seconds": seconds, "every": every, "rows": rows.count()}


def run_duckdb(auctions: Path, bids: Path, folder: Path, memory: str) -> Figures:  # noqa: ARG001
    seconds, every = best(3, lambda: _duckdb_answer(auctions, bids))
    return {"seconds": seconds, "every": every, "answer": _duckdb_answer(auctions, bids)}


def run_streaming(auctions: Path, bids: Path, folder: Path, memory: str) -> Figures:
    """A stream-stream join whose rows are added up batch by batch: insertions only, it knows no others."""
    with plain_session(folder, memory, **STREAMING) as spark:
        stream = Stream(spark, folder)
        try:
            return stream.measure(auctions, bids)
        finally:
            stream.query.stop()


class Stream:
    """Two watched folders and a query that joins what appears in them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder = folder
        self.counts: Counter[int] = Counter()
        self.totals: Counter[int] = Counter()
        self._moved = threading.Condition()
        auctions = self._watch(spark, "auctions", "id BIGINT, category BIGINT")
        bids = self._watch(spark, "bids", "auction BIGINT, price BIGINT")
        joined = bids.join(auctions, f.col("auction") == f.col("id")).select("category", "price")
        writer = joined.writeStream.foreachBatch(self._add_up)
        self.query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()

    def _watch(self, spark: SparkSession, name: str, schema: str) -> DataFrame:
        place = self.folder / name
        place.mkdir()
        return spark.readStream.schema(schema).parquet(str(place))

    def _add_up(self, batch: DataFrame, number: int) -> None:  # noqa: ARG002
        rows = batch.groupBy("category").agg(f.count("*"), f.sum("price")).collect()
        with self._moved:
            for category, count, total in rows:
                self.counts[category] += count
                self.totals[category] += total
            self._moved.notify_all()

    def measure(self, auctions: Path, bids: Path) -> Figures:
        """Load, then add 1,000 bids at a time; what comes first only warms it up."""
        pieces = sorted(path for path in bids.iterdir() if path.is_dir())
        small = pq.read_table(pieces[1])
        files = [self._slice(small, at) for at in range(SMALL_STEPS)]
        self._publish(files[:1], "bids")
        self.query.processAllAvailable()
        started = time.perf_counter()
        parquet = [*auctions.glob("*.parquet"), *pieces[0].glob("*.parquet")]
        self._publish(auctions.glob("*.parquet"), "auctions")
        self._publish(pieces[0].glob("*.parquet"), "bids")
        loaded = sum(pq.read_metadata(path).num_rows for path in pieces[0].glob("*.parquet"))
        self._wait(loaded + SMALL_ROWS)
        seconds = time.perf_counter() - started
        rows = sum(pq.read_metadata(path).num_rows for path in parquet)
        steps = [self._step(file, loaded + SMALL_ROWS * (2 + at)) for at, file in enumerate(files[1:])]
        answer = sorted((key, self.counts[key], self.totals[key]) for key in self.counts)
        assert answer == _duckdb_answer(self.folder / "auctions", self.folder / "bids"), "wrong answer"
        return {"rows": rows, "seconds": seconds, "rows_per_s": rows / seconds, "steps": steps[4:]}

    def _step(self, file: Path, expected: int) -> float:
        started = time.perf_counter()
        self._publish([file], "bids")
        self._wait(expected)
        return time.perf_counter() - started

    def _slice(self, rows: Any, at: int) -> Path:
        path = self.folder / f"small-{at}.parquet"
        pq.write_table(rows.slice(at * SMALL_ROWS, SMALL_ROWS), path)
        return path

    def _publish(self, files: Any, name: str) -> None:
        for file in files:
            os.link(file, self.folder / name / f"{file.parent.name}-{file.name}")

    def _wait(self, rows: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        with self._moved:
            while self.counts.total() < rows:
                self._moved.wait(1)
                # A query that dies notifies nobody.
                if not self.query.isActive or time.monotonic() > deadline:
                    raise RuntimeError(f"the stream got stuck: {self.query.exception()}")


def _duckdb_answer(auctions: Path, bids: Path) -> Answer:
    with duckdb.connect(config={"threads": THREADS}) as connection:
        for name, folder in (("auctions", auctions), ("bids", bids)):
            connection.execute(f"CREATE VIEW {name} AS FROM read_parquet('{folder}/*.parquet')")
        return sorted(connection.execute(QUERY).fetchall())


BASELINES = {"spark": run_spark, "write": run_write, "streaming": run_streaming, "duckdb": run_duckdb}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(BASELINES))
    parser.add_argument("auctions", type=Path)
    parser.add_argument("bids", type=Path)
    parser.add_argument("--memory", default="2g")
    chosen = parser.parse_args()
    # Beside the data, so that links into the watched folders stay on one disk.
    folder = Path(tempfile.mkdtemp(dir=chosen.auctions.parent))
    try:
        figures = BASELINES[chosen.name](chosen.auctions, chosen.bids, folder, chosen.memory)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
