"""A driver of Spark with a pipeline, which does what it is told and can be killed while it does.

python -m crash.spark_child MASTER FOLDER

It reads the name of a method of `Driver` from each line of its input, with an argument, and prints what came
of it as JSON. The view `slow` calls a Python function that hangs once after each `arm`: it then writes
the number of its process to the pipe `hangs`, whose reader can kill it, or whoever is near.
"""

import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

import tidemill
from tidemill.pipeline.engine import Policy
from tidemill.pipeline.errors import PipelineError
from tidemill.pipeline.runtimes.session import create_session

ROWS = 20_000
KEYS = 7
QUIET = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
}
DEADLINE_S = 5.0


def hang_once(folder: str, value: int) -> int:
    """The value; if armed, whoever comes first hangs instead."""
    try:
        Path(folder, "armed").unlink()
    except FileNotFoundError:
        return value
    Path(folder, "hangs").write_text(str(os.getpid()))
    while True:
        signal.pause()


class Driver:
    """The pipeline and what can be asked of it."""

    def __init__(self, master: str, folder: str) -> None:
        self.folder = Path(folder)
        self.spark = create_session("crash", master=master, settings=QUIET)
        # A function of a module that the executors lack travels whole.
        self.spark.udf.register("hang_once", partial(hang_once, folder), "bigint")
        self.pipeline: tidemill.Pipeline | None = None

    @property
    def at(self) -> tidemill.Pipeline:
        assert self.pipeline is not None
        return self.pipeline

    def open(self, deadline_s: str = "600") -> None:
        policy = Policy(deadline_s=float(deadline_s))
        self.pipeline = tidemill.Pipeline(self.spark, self.folder / "p", policy=policy)

    def create(self) -> None:
        self.at.sql("CREATE TABLE t (k BIGINT, v BIGINT)")
        self.at.sql("CREATE VIEW totals AS SELECT k, sum(v) s, max(v) m, count(*) n FROM t GROUP BY k")
        self.at.sql("CREATE VIEW slow AS SELECT k, sum(hang_once(v)) s FROM t GROUP BY k")

    def insert(self, start: str) -> None:
        numbers = range(int(start), int(start) + ROWS)
        self.at.insert("t", pd.DataFrame({"k": [at % KEYS for at in numbers], "v": list(numbers)}))

    def arm(self) -> None:
        (self.folder / "armed").touch()

    def step(self) -> int:
        return self.at.step().number

    def drop(self, view: str) -> None:
        self.at.drop(view)

    def verify(self, view: str) -> bool:
        return self.at.verify(view).equal

    def view(self, name: str) -> list[list[int]]:
        return sorted(self.at.view(name).to_pandas().to_numpy().tolist())

    def close(self) -> None:
        self.at.close()


def serve(driver: Any) -> None:
    """Do what the lines of the input say, with the methods of a driver that has a session, `spark`."""
    say(ready=True)
    for line in sys.stdin:
        verb, *arguments = line.split()
        started = time.perf_counter()
        try:
            answer: dict[str, Any] = {"value": getattr(driver, verb)(*arguments)}
        except PipelineError as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        say(**answer, seconds=time.perf_counter() - started)
    driver.spark.stop()


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    serve(Driver(*sys.argv[1:]))
