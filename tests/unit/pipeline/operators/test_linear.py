"""Operators that look nothing up: what goes in, comes out."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.plan.node import Arrange, Negate, Union, View
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.testing import Bag, Bench, Rows, bag, check, columns, feed, rows_of, spark, streams
from tidemill.pipeline.zset import ZSet


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_union_has_the_rows_of_all_inputs(data: st.DataObject) -> None:
    schema = data.draw(columns())
    renamed = pa.schema([field.with_name(f"u{i}") for i, field in enumerate(schema)])
    nodes = [
        feed(schema),
        Arrange((0,), spark(schema), key=(0,)),
        feed(schema),
        Arrange((2,), spark(schema), key=()),
        Union((1, 3, 1), spark(renamed)),
    ]

    check(nodes, data.draw(streams([schema, schema])), lambda one, other: bag(one + other + one))


def test_a_union_takes_inputs_that_may_not_be_null() -> None:
    strict = pa.schema([pa.field("a", pa.struct([pa.field("b", pa.int8(), nullable=False)]), nullable=False)])
    loose = pa.schema([pa.field("c", pa.struct([pa.field("d", pa.int8())]))])
    bench = Bench([feed(strict), feed(loose), Union((0, 1), spark(loose))])
    rows = [[{"b": 1}, {"b": 2}], [{"d": None}]]
    changes = [
        ZSet.of(pa.RecordBatch.from_arrays([pa.array(values, schema.field(0).type)], schema=schema))
        for values, schema in zip(rows, (strict, loose), strict=True)
    ]

    assert bench.step(changes).rows.to_pydict() == {"c": [{"d": 1}, {"d": 2}, {"d": None}]}


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_negation_has_the_opposite_weights(data: st.DataObject) -> None:
    schema = data.draw(columns())
    nodes = [feed(schema), Arrange((0,), spark(schema), key=(0,)), Negate((1,), spark(schema))]

    check(nodes, data.draw(streams([schema])), lambda rows: bag((row, -weight) for row, weight in rows))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_an_arrangement_and_a_view_keep_what_passes(
    open_spine: Callable[[StateSpec], Any], data: st.DataObject
) -> None:
    schema = data.draw(columns())
    renamed = pa.schema([field.with_name(f"v{i}") for i, field in enumerate(schema)])
    nodes = [feed(schema), Arrange((0,), spark(schema), key=(0,)), View((1,), spark(renamed), name="v")]
    steps = data.draw(streams([schema]))

    check(nodes, steps, bag, open_spine=open_spine)

    bench = Bench(nodes, open_spine)
    total: Rows = []
    for step in steps:
        output = bench.step(step)
        total += rows_of(step[0])
        assert not set(rows_of(output)) & {(row, -weight) for row, weight in rows_of(output)}
        assert [held(spines[0]) for spines in bench.spines[1:]] == [bag(total)] * 2


def held(spine: Any) -> Bag:
    return Counter(dict(row for piece in spine.scan() for row in rows_of(piece)))


def test_the_rows_of_a_view_stay_where_they_are() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    (spine,) = Bench([feed(schema), View((0,), spark(schema), name="v")]).spines[1]

    assert not spine.spec.aligned
    assert spine.spec.key == (0, 1)
