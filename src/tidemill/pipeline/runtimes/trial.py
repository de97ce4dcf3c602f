"""Tries Spark on this machine: run as a program, it says in one line how long a tiny query takes.

It ends with an error when Spark does not start, or does not get through to Python. A process of its own keeps
what the JVM prints, and a JVM that hangs, away from the caller.
"""

import sys
import time
from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa

from tidemill.pipeline.runtimes.session import create_session


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def main() -> None:
    times = [time.perf_counter()]
    spark = create_session("tidemill-trial", master="local[1]")
    times.append(time.perf_counter())
    for _ in range(2):
        spark.range(1).mapInArrow(same, "id long").toArrow()
        times.append(time.perf_counter())
    start, first, second = (end - begin for begin, end in pairwise(times))
    queries = f"a tiny query takes {first:.1f} s, then {second:.2f} s"
    sys.stdout.write(f"Spark {spark.version} starts in {start:.1f} s; {queries}\n")
    spark.stop()


if __name__ == "__main__":
    main()
