"""Constant rows come once, each from the pipeline worker that owns it."""

from typing import Any

import pyarrow as pa

from tidemill.pipeline.operators import build
from tidemill.pipeline.operators.operator import Access, Moment
from tidemill.pipeline.plan.node import Constant, Node, Union
from tidemill.pipeline.state.spec import Part
from tidemill.pipeline.testing import Bench, bag, feed, rows_of, spark
from tidemill.pipeline.zset import ZSet, concat, to_ipc
from tidemill.pipeline.zset.value import empty_rows

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.large_string())])
ROWS = ZSet.of(pa.RecordBatch.from_pydict({"a": list(range(200)), "b": ["x", None] * 100}, schema=SCHEMA))
CONSTANT = Constant((), spark(SCHEMA), to_ipc(ROWS).to_pybytes())


def put_out(node: Node, worker: int, workers: int, *, fresh: bool = True, last: bool = True) -> ZSet:
    nothing: Any = ()
    access = Access(
        nothing, nothing, fresh=fresh, last_round=last, moment=Moment(0, 0.0), part=Part(worker, workers)
    )
    (found,) = build(node, []).step([], access)
    return found


def test_all_workers_together_put_them_out_once() -> None:
    parts = [put_out(CONSTANT, worker, 3) for worker in range(3)]

    assert all(len(part) for part in parts)
    assert bag(rows_of(concat(parts, SCHEMA))) == bag(rows_of(ROWS))


def test_they_come_in_the_last_round_of_the_first_step() -> None:
    assert len(put_out(CONSTANT, 0, 1, last=False)) == 0
    assert len(put_out(CONSTANT, 0, 1, fresh=False)) == 0
    assert len(put_out(CONSTANT, 0, 1)) == len(ROWS)


def test_a_row_without_columns_belongs_to_one_worker() -> None:
    nothing = pa.schema([])
    node = Constant((), spark(nothing), to_ipc(ZSet.of(empty_rows(nothing, 1))).to_pybytes())

    assert sum(len(put_out(node, worker, 4)) for worker in range(4)) == 1


def test_they_stay_while_others_change() -> None:
    bench = Bench([feed(SCHEMA), CONSTANT, Union((0, 1), spark(SCHEMA))])
    change = ROWS.slice(0, 1)

    assert len(bench.step([change], [change])) == len(ROWS) + 2
    assert len(bench.step([change])) == 1
