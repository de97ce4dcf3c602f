"""Marks of rows that have a partner, against plain sets."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.plan.expression import column
from tidemill.pipeline.plan.node import Arrange, Mark, Node, Select
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.testing import VALUES, Bag, Bench, Rows, bag, check, columns, feed, spark, streams
from tidemill.pipeline.zset import ZSet

OpenSpine = Callable[[StateSpec], Any]


def marked(schema: pa.Schema) -> Any:
    return spark(schema.append(pa.field("has", pa.bool_())))


def model(left: Rows, right: Rows, key: tuple[int, ...], null_safe: bool) -> Bag:
    present = {row for row, weight in bag(right).items() if weight > 0}
    present = {row for row in present if null_safe or None not in row}
    return bag(((*row, tuple(row[i] for i in key) in present), n) for row, n in bag(left).items())


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_rows_are_marked_by_what_the_right_has(open_spine: OpenSpine, data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(VALUES)), max_size=2))
    left, right = data.draw(columns(pa.int8(), *kinds, more=1)), data.draw(columns(pa.int8(), *kinds, more=0))
    key, null_safe = tuple(range(1, len(kinds) + 1)), data.draw(st.booleans())
    keys = tuple(column(1 + i, kind) for i, kind in enumerate(kinds))
    nodes: list[Node] = [
        feed(left),
        Arrange((0,), spark(left), key=key),
        feed(right),
        Arrange((2,), spark(right), key=()),
        Select((3,), spark(pa.schema(list(right)[1:])), None, keys),
        Mark((1, 4), marked(left), null_safe=null_safe),
    ]

    check(
        nodes,
        data.draw(streams([left, right])),
        lambda a, b: model(a, [(row[1:], n) for row, n in b], key, null_safe),
        late=2,
        open_spine=open_spine,
    )


PAIR = pa.schema([("k", pa.int8()), ("x", pa.int64())])
KEY = pa.schema([("k", pa.int8())])


def rows(schema: pa.Schema, *values: tuple[int, ...], weight: int = 1) -> ZSet:
    arrays = [pa.array([value[i] for value in values], field.type) for i, field in enumerate(schema)]
    return ZSet.of(pa.RecordBatch.from_arrays(arrays, schema=schema), weight)


@pytest.fixture
def bench(open_spine: OpenSpine) -> Bench:
    nodes = [feed(PAIR), Arrange((0,), spark(PAIR), key=(0,)), feed(KEY), Mark((1, 2), marked(PAIR))]
    return Bench(nodes, open_spine)


def test_no_mark_shows_that_holds_for_a_part_of_a_step(bench: Bench) -> None:
    none = (rows(PAIR), rows(KEY))

    out = bench.step((rows(PAIR, (1, 5)), rows(KEY)), (rows(PAIR), rows(KEY, (1,))), none)

    assert out.rows.to_pylist() == [{"k": 1, "x": 5, "has": True}]
    out = bench.step((rows(PAIR), rows(KEY, (1,), weight=-1)), (rows(PAIR), rows(KEY, (1,))))
    assert not len(out)


def test_a_row_that_goes_with_its_key_leaves_only_its_mark(bench: Bench) -> None:
    bench.step((rows(PAIR, (1, 5), (1, 6)), rows(KEY, (1,))))

    out = bench.step((rows(PAIR, (1, 5), weight=-1), rows(KEY, (1,), weight=-1)))

    found = sorted((*row.values(), n) for row, n in zip(out.rows.to_pylist(), out.weights, strict=True))
    assert found == [(1, 5, True, -1), (1, 6, False, 1), (1, 6, True, -1)]


def test_rounds_of_a_step_that_was_given_up_are_not_continued(open_spine: OpenSpine) -> None:
    nodes = [feed(PAIR), Arrange((0,), spark(PAIR), key=(0,)), feed(KEY), Mark((1, 2), marked(PAIR))]
    bench, again = Bench(nodes, open_spine), Bench(nodes, open_spine)
    for one in (bench, again):
        one.step((rows(PAIR, (1, 5)), rows(KEY)))
    bench._round({0: rows(PAIR, (2, 2)), 2: rows(KEY, (1,))}, {}, last=False)
    again.operators = bench.operators  # the same worker, which opens its state anew

    assert not len(again.step((rows(PAIR), rows(KEY))))
