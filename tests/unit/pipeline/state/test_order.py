"""The order of values: NULL first, NaN last, and nested values part by part, against plain Python."""

import datetime as dt
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.errors import UnsupportedType
from tidemill.pipeline.state.order import dense_ranks, order_codes
from tidemill.pipeline.state.spec import StateSpec

floats = st.sampled_from([0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, -math.nan, 5e-324])
small = st.integers(-2, 2)
pair = pa.struct([("a", pa.int8()), ("b", pa.float64())])
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): small,
    pa.int64(): st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]),
    pa.float32(): st.sampled_from([0.0, -0.0, 1.5, -1.5, math.inf, math.nan]),
    pa.float64(): floats,
    pa.decimal128(38, 2): st.decimals(-(10**30), 10**30, places=2),
    pa.large_string(): st.text(max_size=4),
    pa.large_binary(): st.binary(max_size=3),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.dates().map(lambda day: dt.datetime.combine(day, dt.time(1))),
    pa.null(): st.none(),
    pair: st.fixed_dictionaries({"a": small | st.none(), "b": floats | st.none()}),
    pa.large_list(pa.float64()): st.lists(floats | st.none(), max_size=3),
    pa.large_list(pa.large_list(pa.large_string())): st.lists(
        st.lists(st.sampled_from(["", "a", "b"]) | st.none(), max_size=2) | st.none(), max_size=2
    ),
    pa.large_list(pair): st.lists(
        st.fixed_dictionaries({"a": small | st.none(), "b": floats}) | st.none(), max_size=2
    ),
}


def sort_key(value: Any) -> Any:
    """A value as something that Python orders as Spark does."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value + 0.0)
    if isinstance(value, str):
        return (1, value.encode())
    if isinstance(value, dict):
        return (1, *(sort_key(value[name]) for name in ("a", "b")))
    if isinstance(value, list):
        return (1, tuple(sort_key(item) for item in value))
    return (1, value)


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_codes_compare_as_the_values_do(kind: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES[kind] | st.none(), max_size=12))
    skipped = data.draw(st.integers(0, 2))
    array = pa.array([None] * skipped + values, kind).slice(skipped)
    rows = pa.RecordBatch.from_arrays([array], ["v"])
    ranks = dense_ranks(order_codes(rows, (0,)), len(values)).tolist()
    keys = [sort_key(value) for value in array.to_pylist()]

    for one, rank in zip(keys, ranks, strict=True):
        for other, other_rank in zip(keys, ranks, strict=True):
            assert (rank < other_rank) == (one < other)
            assert (rank == other_rank) == (one == other)


def test_the_first_column_counts_more() -> None:
    rows = pa.record_batch({"a": [1, 0, 1, None], "b": ["x", "z", "a", "m"]}).cast(
        pa.schema([("a", pa.int64()), ("b", pa.large_string())])
    )

    assert np.lexsort(order_codes(rows, (0, 1))[::-1]).tolist() == [3, 1, 2, 0]


def test_decimals_beyond_64_bits_keep_their_order() -> None:
    values = [decimal.Decimal(sign * 10**power) for sign in (-1, 1) for power in (0, 18, 19, 20, 37)]
    rows = pa.RecordBatch.from_arrays([pa.array(values, pa.decimal128(38, 0))], ["v"])
    order = np.lexsort(order_codes(rows, (0,))[::-1])

    assert [values[index] for index in order] == sorted(values)


def test_a_map_cannot_order_rows() -> None:
    nested = pa.large_list(pa.map_(pa.int8(), pa.int8()))

    with pytest.raises(UnsupportedType, match="maps have no order"):
        StateSpec("s", pa.schema([("k", pa.int64()), ("v", nested)]), (0,), order=(1,))
