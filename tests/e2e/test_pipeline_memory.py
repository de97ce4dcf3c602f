"""State that is larger than memory: a process that may take far less than its state does all its work.

Reading all of a state into memory anywhere, be it once, makes this fail.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crash.processes import TESTS
from e2e.small_memory import ALLOWANCE, GROUPS, SMALL, inserts, sales
from tidemill.pipeline.runtimes.java import Java

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

FRUGAL = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_TRIM_THRESHOLD_": "131072",
}
"""No allocator that takes more than it is asked for: what counts here is what was asked for."""

Answer = list[dict[str, Any]]


@pytest.fixture(scope="module")
def expected() -> dict[str, Answer]:
    """What the views have to be, added up here column by column."""
    columns = {name: np.empty(0, np.int64) for name in ("grp", "price", "note")}
    for number, ids in inserts():
        new = sales(number, ids)
        for name, values in columns.items():
            longer = np.append(values, np.zeros(max(0, ids.stop - len(values)), np.int64))
            longer[ids.start : ids.stop] = new[name]
            columns[name] = longer
    left = {name: values[SMALL:] for name, values in columns.items()}
    return {"before": totals(columns), "totals": totals(left), "lengths": lengths(left)}


def totals(columns: dict[str, Any]) -> Answer:
    found = []
    for group in range(GROUPS):
        prices = columns["price"][columns["grp"] == group]
        found.append(
            {"grp": group, "n": len(prices), "total": int(prices.sum()), "most": int(prices.max(initial=0))}
        )
    return found


def lengths(columns: dict[str, Any]) -> Answer:
    found = []
    for group in range(GROUPS):
        mine = columns["grp"] == group
        total, letters = (int(columns[name][mine].sum()) for name in ("price", "note"))
        found.append({"grp": group, "n": int(mine.sum()), "total": total, "letters": letters})
    return found


@pytest.mark.parametrize("runtime", ["inline", "batch"])
def test_a_state_may_be_larger_than_memory(
    tmp_path: Path, java: Java, runtime: str, expected: dict[str, Answer]
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "e2e.small_memory", str(tmp_path / "p"), runtime],
        env={**os.environ, **FRUGAL, "PYTHONPATH": str(TESTS), "JAVA_HOME": str(java.home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    found = json.loads(ended.stdout.splitlines()[-1])

    assert found.pop("state") > 2 * ALLOWANCE
    assert {view: sorted(rows, key=lambda row: row["grp"]) for view, rows in found.items()} == expected
