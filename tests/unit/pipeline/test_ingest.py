"""Rows that do not fit their table are refused with the reason; those that do are kept in one form."""

import datetime as dt
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest

from tidemill.pipeline.errors import BadInput
from tidemill.pipeline.ingest import KEY_BYTES, canonical, to_change
from tidemill.pipeline.plan.node import Source
from tidemill.pipeline.types import schema_to_spark
from tidemill.pipeline.zset import hash_rows

INT, BIG, TEXT = pa.int32(), pa.int64(), pa.large_string()


def table(
    *fields: tuple[str, pa.DataType], key: tuple[int, ...] = (), required: tuple[int, ...] = ()
) -> Source:
    schema = pa.schema(
        [pa.field(name, kind, at not in (*key, *required)) for at, (name, kind) in enumerate(fields)]
    )
    return Source((), schema_to_spark(schema), "t", key, key or tuple(range(len(fields))))


def change(source: Source, *, weight: int | None = 1, **columns: Any) -> Any:
    return to_change(source, pa.table(columns), weight=weight, zone="America/New_York")


def test_columns_come_in_any_order_and_leave_in_the_tables() -> None:
    found = change(table(("a", BIG), ("b", TEXT)), b=["x"], a=[1])

    assert found.rows.to_pylist() == [{"a": 1, "b": "x"}]
    assert found.weights.tolist() == [1]


@pytest.mark.parametrize(
    ("kind", "values", "kept"),
    [
        (INT, pa.array([1, 2], BIG), [1, 2]),
        (pa.float64(), pa.array([1], BIG), [1.0]),
        (pa.decimal128(10, 2), pa.array([3], BIG), [decimal.Decimal("3.00")]),
        (pa.decimal128(10, 2), pa.array([decimal.Decimal("1.5")]), [decimal.Decimal("1.50")]),
        (TEXT, pa.array(["a"]).dictionary_encode(), ["a"]),
        (pa.large_list(BIG), pa.array([[1]], pa.list_(INT)), [[1]]),
        (BIG, pa.nulls(2), [None, None]),
        (
            pa.timestamp("us", "UTC"),
            pa.array([dt.datetime(2024, 7, 1, 8)], pa.timestamp("ms")),
            [dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC)],
        ),
        (
            pa.timestamp("us"),
            pa.array([dt.datetime(2024, 7, 1, 8)], pa.timestamp("ns")),
            [dt.datetime(2024, 7, 1, 8)],
        ),
    ],
)
def test_values_that_mean_the_same_are_taken(kind: pa.DataType, values: Any, kept: list[Any]) -> None:
    found = change(table(("a", kind)), a=values)

    assert found.rows.column(0).type == kind
    assert found.rows.column(0).to_pylist() == kept


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (INT, pa.array(["1"])),
        (INT, pa.array([2**40])),
        (INT, pa.array([1.0])),
        (TEXT, pa.array([1])),
        (pa.decimal128(3, 1), pa.array([decimal.Decimal("1.25")])),
        (pa.float32(), pa.array([2**53 + 1], BIG)),
        (pa.timestamp("us"), pa.array([dt.datetime(2024, 7, 1, tzinfo=dt.UTC)])),
        (pa.bool_(), pa.array([1])),
        (pa.struct([("x", BIG)]), pa.array([{"y": 1}])),
        (pa.date32(), pa.array([dt.datetime(2024, 7, 1)])),
    ],
)
def test_values_that_would_change_are_refused(kind: pa.DataType, values: Any) -> None:
    with pytest.raises(BadInput, match="column a"):
        change(table(("a", kind)), a=values)


def test_wrong_columns_are_named() -> None:
    source = table(("a", BIG), ("b", TEXT))

    with pytest.raises(BadInput, match="column b is missing"):
        change(source, a=[1])
    with pytest.raises(BadInput, match="no column c; it has a, b"):
        change(source, a=[1], b=["x"], c=[1])


def test_null_is_refused_where_the_table_wants_a_value() -> None:
    with pytest.raises(BadInput, match="1 NULL in a, the primary key"):
        change(table(("a", BIG), ("b", TEXT), key=(0,)), a=[1, None], b=["x", "y"])
    with pytest.raises(BadInput, match="1 NULL in b, a NOT NULL column"):
        change(table(("a", BIG), ("b", TEXT), required=(1,)), a=[1, 2], b=["x", None])


def test_a_primary_key_has_a_largest_size() -> None:
    source = table(("k", TEXT), key=(0,))

    assert len(change(source, k=["x" * KEY_BYTES])) == 1
    with pytest.raises(BadInput, match="a primary key of 1048576 bytes"):
        change(source, k=["x" * 2**20])


def test_weights_come_with_the_rows_when_asked_for() -> None:
    source = table(("a", BIG))

    found = change(source, weight=None, a=[1, 2, 3], _weight=[2, -5, 0])
    assert found.weights.tolist() == [2, -5]
    with pytest.raises(BadInput, match="need a column _weight"):
        change(source, weight=None, a=[1])
    with pytest.raises(BadInput, match="whole numbers, without NULL"):
        change(source, weight=None, a=[1], _weight=[None])
    with pytest.raises(BadInput, match="_weight"):
        change(source, weight=None, a=[1], _weight=pa.array([2**63], pa.uint64()))


def test_with_a_primary_key_a_row_is_there_once() -> None:
    source = table(("a", BIG), key=(0,))

    with pytest.raises(BadInput, match="is 1 or -1"):
        change(source, weight=None, a=[1], _weight=[2])


def test_a_delete_needs_no_more_than_the_key() -> None:
    found = change(table(("a", BIG), ("b", TEXT), key=(0,), required=(1,)), weight=-1, a=[7])

    assert found.rows.to_pylist() == [{"a": 7, "b": None}]
    assert found.weights.tolist() == [-1]


def test_equal_values_have_one_form() -> None:
    maps = pa.array(
        [[("b", -0.0), ("a", 1.0)], None, [("a", 1.0), ("b", 0.0)], []], pa.map_(TEXT, pa.float64())
    )
    nested = pa.array(
        [[{"f": -0.0}], [{"f": 0.0}, None], None], pa.large_list(pa.struct([("f", pa.float64())]))
    )

    assert canonical(maps).to_pylist() == [[("a", 1.0), ("b", 0.0)], None, [("a", 1.0), ("b", 0.0)], []]
    assert canonical(maps).type == maps.type
    assert math.copysign(1, canonical(nested).to_pylist()[0][0]["f"]) == 1.0
    assert canonical(nested).to_pylist() == nested.to_pylist()
    rows = pa.RecordBatch.from_arrays([canonical(maps)], ["m"])
    assert hash_rows(rows)[0] == hash_rows(rows)[2]


def test_a_slice_of_a_map_column_keeps_its_own_entries() -> None:
    maps = pa.array([[("z", 1)], [("b", 2), ("a", 3)], [("c", 4)]], pa.map_(TEXT, BIG)).slice(1, 1)

    assert canonical(maps).to_pylist() == [[("a", 3), ("b", 2)]]


def test_a_map_has_each_key_once() -> None:
    maps = pa.array([[("k", 1), ("k", 2)]], pa.map_(TEXT, BIG))

    with pytest.raises(BadInput, match="column m: a map has the same key twice"):
        change(table(("m", pa.map_(TEXT, BIG))), m=maps)


def test_a_number_does_not_become_infinite() -> None:
    with pytest.raises(BadInput, match=r"column a \(float\): a number is too large"):
        change(table(("a", pa.float32())), a=[1e300])
    assert change(table(("a", pa.float32())), a=[math.inf, 0.5]).rows.column(0).to_pylist() == [math.inf, 0.5]


def test_no_rows_are_no_change() -> None:
    assert len(change(table(("a", BIG)), a=pa.array([], BIG))) == 0
