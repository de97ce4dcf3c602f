"""Rows that may be one at most."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.plan.node import AtMostOne
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.testing import Bench, feed, spark
from tidemill.pipeline.zset import ZSet

ROWS = pa.schema([("x", pa.int64())])


def change(*values: int, weight: int = 1) -> ZSet:
    return ZSet.of(pa.record_batch([pa.array(values, pa.int64())], schema=ROWS), weight)


@pytest.fixture
def bench(open_spine: Callable[[StateSpec], Any]) -> Bench:
    return Bench([feed(ROWS), AtMostOne((0,), spark(ROWS))], open_spine)


def test_one_row_passes_and_may_change(bench: Bench) -> None:
    assert len(bench.step([change(1)])) == 1
    assert len(bench.step([change(2)], [change(1, weight=-1)])) == 2
    assert len(bench.step([change(2, weight=-1)])) == 1


@pytest.mark.parametrize("second", [1, 2])
def test_two_rows_are_refused_at_the_end_of_the_step(bench: Bench, second: int) -> None:
    bench.step([change(1)])

    with pytest.raises(StepAborted, match=r"\[SCALAR_SUBQUERY_TOO_MANY_ROWS\] .* has 2 rows"):
        bench.step([change(second)])


PAIRS = pa.schema([("k", pa.large_string()), ("x", pa.int64())])


def pairs(*rows: tuple[str | None, int], weight: int = 1) -> ZSet:
    columns = [pa.array([row[at] for row in rows], PAIRS.field(at).type) for at in range(2)]
    return ZSet.of(pa.record_batch(columns, schema=PAIRS), weight)


@pytest.fixture
def by_key(open_spine: Callable[[StateSpec], Any]) -> Bench:
    return Bench([feed(PAIRS), AtMostOne((0,), spark(PAIRS), key=(0,))], open_spine)


def test_each_key_may_have_one_row(by_key: Bench) -> None:
    assert len(by_key.step([pairs(("a", 1), ("b", 1), (None, 1))])) == 3
    assert len(by_key.step([pairs(("a", 2))], [pairs(("a", 1), weight=-1)])) == 2


def test_two_rows_of_a_key_are_refused_whichever_round_brought_them(by_key: Bench) -> None:
    by_key.step([pairs(("a", 1), ("b", 1))])

    with pytest.raises(StepAborted, match="has 2 rows"):
        by_key.step([pairs(("a", 2))], [pairs(("c", 1))])
