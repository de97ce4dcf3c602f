"""Plain Python values as columns: what fits is kept as it is, what does not is refused with its column."""

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest

from tidemill.api.python_rows import from_rows
from tidemill.pipeline.errors import BadInput
from tidemill.pipeline.plan.node import Source
from tidemill.pipeline.types import schema_to_spark


def table(kind: pa.DataType) -> Source:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("a", kind)])
    return Source((), schema_to_spark(schema), "t", (), (0, 1))


def kept(kind: pa.DataType, *values: Any) -> list[Any]:
    found = from_rows(table(kind), [{"id": number, "a": value} for number, value in enumerate(values)])
    return list(found.column("a").to_pylist())


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int32(), [1, None]),
        (pa.float64(), [1, 2.5]),
        (pa.decimal128(10, 2), [decimal.Decimal("1.50"), None]),
        (pa.large_string(), ["ü", ""]),
        (pa.date32(), [dt.date(2024, 2, 29)]),
        (pa.large_list(pa.int64()), [[1, None], []]),
        (pa.struct([("x", pa.int64())]), [{"x": 1}, None]),
    ],
)
def test_values_that_fit_are_kept(kind: pa.DataType, values: list[Any]) -> None:
    assert kept(kind, *values) == values


def test_a_map_may_be_given_as_a_dict_or_as_pairs() -> None:
    kind = pa.map_(pa.large_string(), pa.int64())

    assert kept(kind, [("k", 1)], None) == [[("k", 1)], None]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int32(), 1.5),
        (pa.int32(), "1"),
        (pa.int64(), 2**70),
        (pa.large_string(), 7),
        (pa.large_string(), "\ud800"),
        (pa.large_list(pa.int64()), [1.5]),
        (pa.map_(pa.large_string(), pa.int64()), [("k", 1.5)]),
        (pa.struct([("x", pa.int64())]), {"x": 0.5}),
    ],
)
def test_values_that_would_change_are_refused_with_their_column(kind: pa.DataType, value: Any) -> None:
    with pytest.raises(BadInput, match="column a"):
        kept(kind, value)


def test_a_row_that_lacks_a_column_of_the_others_is_named() -> None:
    with pytest.raises(BadInput, match="row 1 has no a, which others have"):
        from_rows(table(pa.int64()), [{"id": 1, "a": 1}, {"id": 2}])


def test_no_rows_are_no_rows() -> None:
    found = from_rows(table(pa.int64()), [])

    assert (found.num_rows, found.column_names) == (0, ["id", "a"])
