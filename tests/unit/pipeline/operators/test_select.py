"""Filter and projection against a plain loop."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.plan.expression import Tree, call, column, literal
from tidemill.pipeline.plan.node import Arrange, Select
from tidemill.pipeline.testing import Bag, Bench, Rows, bag, check, columns, feed, spark, streams
from tidemill.pipeline.zset import ZSet

LONG = pa.int64()
POSITIVE = call("GreaterThan", column(1, pa.int8()), literal(0, pa.int8()), type=pa.bool_())


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_rows_are_filtered_and_columns_are_picked(data: st.DataObject) -> None:
    schema = data.draw(columns(pa.large_string(), pa.int8()))
    where = data.draw(st.sampled_from([None, POSITIVE]))
    chosen = data.draw(st.lists(st.sampled_from(range(len(schema))), max_size=4))
    seven: list[Tree] = [literal(7, LONG)]
    output = pa.schema([("n", LONG), *((f"s{i}", schema.field(c).type) for i, c in enumerate(chosen))])
    picks = [column(index, schema.field(index).type) for index in chosen]
    nodes = [
        feed(schema),
        Arrange((0,), spark(schema), key=()),
        Select((1,), spark(output), where=where, columns=(*seven, *picks)),
    ]

    def model(rows: Rows) -> Bag:
        kept = [(r, w) for r, w in rows if where is None or (r[1] is not None and r[1] > 0)]
        return bag(((7, *(row[index] for index in chosen)), weight) for row, weight in kept)

    check(nodes, data.draw(streams([schema])), model)


SCHEMA = pa.schema([("a", LONG), ("b", LONG)])
QUOTIENT = call("IntegralDivide", column(0, LONG), column(1, LONG), type=LONG, mode="ANSI")


def quotients(where: Tree | None) -> Bench:
    return Bench(
        [feed(SCHEMA), Select((0,), spark(pa.schema([("q", LONG)])), where=where, columns=(QUOTIENT,))]
    )


def change(*rows: tuple[int | None, int | None]) -> ZSet:
    values = [{"a": a, "b": b} for a, b in rows]
    return ZSet.of(pa.RecordBatch.from_pylist(values, SCHEMA))


def test_only_rows_that_pass_can_raise() -> None:
    not_zero = call(
        "Not", call("EqualTo", column(1, LONG), literal(0, LONG), type=pa.bool_()), type=pa.bool_()
    )
    rows = change((6, 3), (1, 0), (1, None), (None, 1))

    assert quotients(not_zero).step([rows]).rows.to_pydict() == {"q": [2, None]}
    with pytest.raises(StepAborted, match="DIVIDE_BY_ZERO"):
        quotients(None).step([rows])


def test_columns_that_are_only_picked_are_not_copied() -> None:
    swapped = pa.schema([("b", LONG), ("a", LONG)])
    picks = (column(1, LONG), column(0, LONG))
    bench = Bench([feed(SCHEMA), Select((0,), spark(swapped), where=None, columns=picks)])
    rows = change((1, 2), (3, 4))

    output = bench.step([rows])

    assert output.rows.column(0).buffers()[1].address == rows.rows.column(1).buffers()[1].address
    assert output.weights is rows.weights
