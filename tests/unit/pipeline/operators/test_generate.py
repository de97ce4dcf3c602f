"""Functions that make rows, against loops in plain Python."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.plan.node import Arrange, Generate, Replicate
from tidemill.pipeline.testing import Bag, Bench, Rows, bag, check, feed, rows_of, spark
from tidemill.pipeline.zset import ZSet

STRUCT = pa.struct([("x", pa.int32()), ("y", pa.large_string())])
ITEMS = pa.large_list(pa.field("element", pa.float64()))
STRUCTS = pa.large_list(pa.field("element", STRUCT))
NESTED = pa.large_list(pa.field("element", ITEMS))
ENTRIES = pa.map_(pa.large_string(), pa.int32())

FLOATS = st.lists(st.sampled_from([0.0, 1.5, float("nan")]) | st.none(), max_size=3)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    ITEMS: FLOATS,
    STRUCTS: st.lists(
        st.fixed_dictionaries({"x": st.integers(0, 1) | st.none(), "y": st.just("q")}) | st.none(), max_size=3
    ),
    NESTED: st.lists(FLOATS | st.none(), max_size=2),
    ENTRIES: st.lists(
        st.tuples(st.sampled_from("kl"), st.integers(0, 1) | st.none()),
        max_size=2,
        unique_by=lambda entry: entry[0],
    ).map(sorted),
}


@st.composite
def streams(draw: st.DrawFn, kind: pa.DataType, values: st.SearchStrategy[Any]) -> list[tuple[ZSet]]:
    schema = pa.schema([("k", pa.int64()), ("v", kind)])
    row = st.tuples(st.integers(0, 2) | st.none(), values | st.none(), st.sampled_from([1, 2, -1, -3]))
    steps = []
    for rows in draw(st.lists(st.lists(row, max_size=6), min_size=1, max_size=4)):
        arrays = [pa.array([one[at] for one in rows], field.type) for at, field in enumerate(schema)]
        whole = ZSet(
            pa.RecordBatch.from_arrays(arrays, schema=schema), np.array([w for *_, w in rows], np.int64)
        )
        start = draw(st.integers(0, min(len(rows), 1)))  # a slice: kernels must mind the offset
        steps.append((whole.slice(start, len(rows) - start),))
    return steps


def made_of(row: Any, function: str, kind: pa.DataType, *, outer: bool) -> list[tuple[Any, ...]]:
    """The rows that a row becomes."""
    key, collection = row
    width = {ENTRIES: 2, STRUCTS: 2 if function == "Inline" else 1}.get(kind, 1) + (function == "PosExplode")
    found: list[tuple[Any, ...]] = []
    for place, element in enumerate(collection or ()):
        if function == "Inline":
            parts = (None, None) if element is None else tuple(value for _, value in element)
        else:
            parts = element if kind == ENTRIES else (element,)
        found.append((key, *([place] if function == "PosExplode" else []), *parts))
    return found or ([(key, *[None] * width)] if outer else [])


def output(function: str, kind: pa.DataType) -> pa.Schema:
    fields: list[pa.Field] = [pa.field("k", pa.int64())]
    if function == "PosExplode":
        fields.append(pa.field("pos", pa.int32()))
    if kind == ENTRIES:
        fields += [pa.field("key", pa.large_string()), pa.field("value", pa.int32())]
    elif function == "Inline":
        fields += list(STRUCT)
    else:
        fields.append(pa.field("col", kind.value_type))
    return pa.schema(fields)


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize(
    ("function", "kind"),
    [(name, kind) for name in ("Explode", "PosExplode") for kind in VALUES] + [("Inline", STRUCTS)],
)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_each_element_is_a_row(function: str, kind: pa.DataType, outer: bool, data: st.DataObject) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", kind)])
    nodes = [
        feed(schema),
        Arrange((0,), spark(schema), key=(0,)),
        Generate((1,), spark(output(function, kind)), function, outer),
    ]

    def model(rows: Rows) -> Bag:
        return bag(
            (made, weight) for row, weight in rows for made in made_of(row, function, kind, outer=outer)
        )

    check(nodes, data.draw(streams(kind, VALUES[kind])), model)


@given(streams(pa.int64(), st.integers(-1, 3)))
@settings(max_examples=50, deadline=None)
def test_rows_are_there_as_often_as_they_say(steps: list[tuple[ZSet]]) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    nodes = [
        feed(schema),
        Arrange((0,), spark(schema), key=(0,)),
        Replicate((1,), spark(pa.schema([schema.field(0)]))),
    ]

    check(nodes, steps, lambda rows: bag(((k,), weight * max(v or 0, 0)) for (k, v), weight in rows))


def test_a_number_that_only_changes_is_told_as_one_row() -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    bench = Bench([feed(schema), Replicate((0,), spark(pa.schema([schema.field(0)])))])

    rows = pa.RecordBatch.from_arrays([pa.array([7, 7]), pa.array([3, 5])], schema=schema)
    changed = bench.step([ZSet(rows, np.array([-1, 1]))])

    assert rows_of(changed) == [((7,), 2)]


def test_too_often_is_an_error() -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    bench = Bench([feed(schema), Replicate((0,), spark(pa.schema([schema.field(0)])))])
    rows = pa.RecordBatch.from_arrays([pa.array([7]), pa.array([2**62])], schema=schema)

    with pytest.raises(StepAborted, match="WEIGHT_OVERFLOW"):
        bench.step([ZSet(rows, np.array([2]))])
