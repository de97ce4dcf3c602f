"""A pipeline in a process that may not have its state in memory.

python -m e2e.small_memory FOLDER RUNTIME

After Spark has started and everything is loaded, the memory that this process and Spark's Python processes
may still take for themselves is limited to `ALLOWANCE`; files that are mapped do not count. It prints as JSON
what the views said, and how large the state is.
"""

import json
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

import tidemill
from tidemill.api.pipeline import RuntimeName
from tidemill.pipeline.engine import Policy
from tidemill.pipeline.runtimes.session import create_session

ALLOWANCE = 288 << 20
APPENDS = 20
ROWS = 100_000
GROUPS = 10
PAD = 160
SMALL = 50

SCRIPT = """
CREATE TABLE sales (id BIGINT PRIMARY KEY, grp INT, price BIGINT, note STRING);
CREATE VIEW noted AS SELECT id, grp, price, note FROM sales WHERE price >= 0;
CREATE VIEW totals AS
    SELECT grp, count(*) AS n, sum(price) AS total, max(price) AS most FROM sales GROUP BY grp;
"""
LATE = """
CREATE VIEW lengths AS
    SELECT grp, count(*) AS n, sum(price) AS total, sum(length(note)) AS letters FROM noted GROUP BY grp;
"""
QUIET = {"spark.driver.memory": "1g", "spark.log.level": "OFF"}


def sales(number: int, ids: range) -> dict[str, Any]:
    """The n-th rows, under these keys: columns by name."""
    random = np.random.default_rng(number)
    count = len(ids)
    return {
        "id": np.array(ids),
        "grp": random.integers(0, GROUPS, count, np.int32),
        "price": random.integers(0, 1000, count),
        "note": random.integers(PAD // 2, PAD, count),
    }


def inserts() -> Iterator[tuple[int, range]]:
    """The numbers and keys of all inserts, the large ones first; the small ones replace rows of those."""
    for number in range(APPENDS):
        yield number, range(number * ROWS, (number + 1) * ROWS)
    for number in range(APPENDS, APPENDS + 3):
        yield number, range(number * SMALL, (number + 1) * SMALL)


def table(columns: dict[str, Any]) -> pa.Table:
    """The rows with notes that are long and all different."""
    text = [f"{at:x}".ljust(size, ".") for at, size in zip(columns["id"], columns["note"], strict=True)]
    return pa.table({**columns, "note": text})


def limit() -> None:
    """Let each Python process here take no more than the allowance on top of what it has."""
    here = psutil.Process()
    for process in (here, *here.children(recursive=True)):
        if "python" in process.name():
            status = Path(f"/proc/{process.pid}/status").read_text()
            held = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmData")))
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (held * 1024 + ALLOWANCE,) * 2)


def main(folder: Path, runtime: RuntimeName) -> None:
    spark = create_session("small-memory", master="local[2]", settings=QUIET)
    policy = Policy(round_rows=ROWS)
    with tidemill.Pipeline(spark, folder, runtime=runtime, workers=1, policy=policy) as p:
        p.sql(SCRIPT)
        p.step()
        limit()
        for number, ids in inserts():
            p.insert("sales", table(sales(number, ids)))
            p.step()
        before = p.view("totals").to_arrow().to_pylist()
        p.sql(LATE)
        p.step()
        p.delete("sales", pa.table({"id": np.arange(SMALL)}))
        p.step()
        state = sum(run.size for run in p._engine.runs.all())
        views = {name: p.view(name).to_arrow().to_pylist() for name in ("totals", "lengths")}
    print(json.dumps({"before": before, **views, "state": state}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])  # type: ignore[arg-type]
