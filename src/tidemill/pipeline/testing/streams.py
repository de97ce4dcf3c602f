"""Random changes: few different values of every type, so that rows meet, repeat and cancel out."""

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tidemill.pipeline.zset import ZSet

_FLOATS = [0.0, -0.0, 1.5, math.nan, -math.inf]

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-2, 2),
    pa.int32(): st.sampled_from([0, 1, 2, -(2**31)]),
    pa.int64(): st.sampled_from([0, 1, 2**63 - 1, -(2**63)]),
    pa.float32(): st.sampled_from(_FLOATS),
    pa.float64(): st.sampled_from(_FLOATS),
    pa.decimal128(38, 2): st.sampled_from([Decimal("1.20"), Decimal("-99999999999999999999.01")]),
    pa.large_string(): st.sampled_from(["", "a", "b", "abcdefghi", "ü" * 9]),
    pa.large_binary(): st.sampled_from([b"", b"\0", b"\0\0"]),
    pa.date32(): st.sampled_from([dt.date(1970, 1, 1), dt.date(1, 1, 1)]),
    pa.timestamp("us", "UTC"): st.sampled_from([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]),
    pa.timestamp("us"): st.sampled_from([dt.datetime(1969, 12, 31)]),  # noqa: DTZ001
    pa.large_list(pa.field("element", pa.float64())): st.lists(
        st.sampled_from(_FLOATS) | st.none(), max_size=2
    ),
    pa.map_(pa.large_string(), pa.int8()): st.lists(
        st.tuples(st.sampled_from(["k", "l"]), st.integers(0, 1) | st.none()),
        max_size=2,
        unique_by=lambda e: e[0],
    ).map(sorted),
    pa.struct([("a", pa.int8()), ("b", pa.large_string())]): st.fixed_dictionaries(
        {"a": st.integers(0, 1) | st.none(), "b": st.sampled_from(["", "q"])}
    ),
}
"""For each type a few values, NULL aside. Entries of maps are in the order of keys, as after an append."""

_WEIGHTS = st.sampled_from([1, 1, 1, -1, -1, 2, -2, 3])


def columns(*fixed: pa.DataType, more: int = 2) -> st.SearchStrategy[pa.Schema]:
    """A schema: the fixed types, then up to `more` of any type."""
    kinds = st.lists(st.sampled_from(list(VALUES)), min_size=0 if fixed else 1, max_size=more)
    return kinds.map(lambda others: pa.schema([(f"c{i}", kind) for i, kind in enumerate([*fixed, *others])]))


@st.composite
def changes(
    draw: st.DrawFn,
    schema: pa.Schema,
    *,
    max_rows: int = 8,
    weights: st.SearchStrategy[int] = _WEIGHTS,
    required: Sequence[int] = (),
) -> ZSet:
    """A change of any weights; the `required` columns have no NULL."""
    size = draw(st.integers(0, max_rows))
    arrays = []
    for index, field in enumerate(schema):
        values = VALUES[field.type] if index in required else VALUES[field.type] | st.none()
        arrays.append(pa.array(draw(st.lists(values, min_size=size, max_size=size)), field.type))
    drawn = draw(st.lists(weights, min_size=size, max_size=size))
    start = draw(st.integers(0, min(size, 1)))  # a slice: kernels must mind the offset
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
    return ZSet(rows, np.array(drawn, np.int64)).slice(start, size - start)


def streams(
    schemas: Sequence[pa.Schema], *, max_steps: int = 4, max_rows: int = 8
) -> st.SearchStrategy[list[tuple[ZSet, ...]]]:
    """Steps, each with a change for every input."""
    step = st.tuples(*(changes(schema, max_rows=max_rows) for schema in schemas))
    return st.lists(step, min_size=1, max_size=max_steps)
