"""Rows are invented for columns of any type: keys count up, equal names have equal values."""

import numpy as np
import pyarrow as pa
import pytest

from tidemill.app.demo.inventing import FEW, Invented, capacity, counted, invented
from tidemill.app.demo.lives import Life
from tidemill.pipeline.errors import Refused
from unit.app.demo.replay import current, replayed

BEGAN_US = 1_700_000_000_000_000
TYPES = {
    "b": pa.bool_(),
    "tiny": pa.int8(),
    "small": pa.int16(),
    "i": pa.int32(),
    "l": pa.int64(),
    "f": pa.float32(),
    "d": pa.float64(),
    "money": pa.decimal128(7, 2),
    "share": pa.decimal128(2, 2),
    "huge": pa.decimal128(38, 18),
    "s": pa.large_string(),
    "raw": pa.large_binary(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "wall": pa.timestamp("us"),
    "nothing": pa.null(),
    "list": pa.large_list(pa.field("element", pa.int32())),
    "map": pa.map_(pa.large_string(), pa.float64()),
    "struct": pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.large_list(pa.large_string()))]),
}
COUNTABLE = [name for name, kind in TYPES.items() if capacity(kind)]
LIFE = Life(changed_after=20, withdrawn_after=30, kept=100, pillars=5)


def table(*key: int, names: tuple[str, ...] = tuple(TYPES), nullable: bool = True) -> Invented:
    schema = pa.schema([pa.field(name, TYPES[name], nullable=nullable) for name in names])
    return Invented("t", schema, key, BEGAN_US, LIFE)


def test_every_type_has_rows_that_can_be_told_apart_and_made_again() -> None:
    one = table()
    numbers = np.arange(500)

    rows = one.rows(numbers, numbers % 2)
    assert rows.schema == one.schema
    assert rows.equals(table().rows(numbers, numbers % 2))
    assert {name for name in TYPES if len({str(value) for value in rows[name].to_pylist()}) < 2} == {
        "nothing"
    }


def test_null_is_where_it_may_be() -> None:
    numbers = np.arange(500)
    nulls = [column.null_count for column in table().rows(numbers, numbers * 0).columns]
    strict = table(names=tuple(set(TYPES) - {"nothing"}), nullable=False).rows(numbers, numbers * 0)

    assert min(nulls) > 0
    assert sum(column.null_count for column in strict.columns) == 0


@pytest.mark.parametrize("name", COUNTABLE)
def test_a_key_of_any_type_is_there_once(name: str) -> None:
    one = table(0, names=(name, "list"))
    moments = [*range(0, 400, 33), 400]

    assert replayed(one, (0,), moments) == current(one, 400)


def test_a_key_of_several_columns_is_there_once() -> None:
    one = table(1, 0, 2, names=("l", "s", "b", "d"))

    assert replayed(one, (0, 1, 2), [0, 150, 400]) == current(one, 400)
    assert one.rows(np.arange(3), np.arange(3))["s"].to_pylist() == ["s-0", "s-1", "s-2"]


def test_rows_without_a_key_come_and_go() -> None:
    one = table(names=("i", "list", "struct", "at", "s"))

    assert len(current(one, 400)) > 50
    assert replayed(one, (), [0, 90, 400]) == current(one, 400)


def test_a_table_is_full_when_there_are_no_more_keys() -> None:
    assert table(0, names=("b", "i")).come(1_000) == 2
    assert table(0, names=("tiny", "i")).come(1_000) == 128
    assert table(0, names=("l", "i")).come(1_000) == 1_000
    assert table(names=("b",)).come(1_000) == 1_000


def test_a_key_that_cannot_be_counted_is_refused_by_name() -> None:
    with pytest.raises(Refused, match="table t: column list: no keys of this type can be invented"):
        table(0, names=("list", "i")).rows(np.arange(3), np.arange(3))


def test_columns_of_one_name_have_the_same_values() -> None:
    key = counted(pa.int64(), "auction", np.arange(FEW))
    other = invented(pa.int64(), "auction", np.arange(5_000), np.arange(5_000))
    texts = [
        set(invented(pa.large_string(), "city", numbers, numbers).to_pylist())
        for numbers in (np.arange(9_000), np.arange(20_000, 29_000))
    ]

    assert set(other.to_pylist()) <= set(key.to_pylist())
    assert len(texts[0] & texts[1]) > 0.9 * FEW


def test_times_go_on() -> None:
    rows = table(names=("at", "day"), nullable=False).rows(np.arange(0, 10_000, 5_000), np.zeros(2, np.int64))
    first, second = rows["at"].to_pylist()

    assert first < second
    assert abs(first.timestamp() * 1e6 - BEGAN_US) < 3_000_000
