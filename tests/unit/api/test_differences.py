"""Two bags of rows are the same if they differ by the rounding of floats alone."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidemill.api.differences import unequal
from tidemill.pipeline.zset import ZSet

NEAR = 0.1 + 0.2  # not quite 0.3


def bag(kinds: list[pa.DataType], rows: dict[tuple[Any, ...], int]) -> ZSet:
    schema = pa.schema([pa.field(f"c{at}", kind) for at, kind in enumerate(kinds)])
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
    return ZSet(pa.RecordBatch.from_arrays(columns, schema=schema), np.array([*rows.values()], np.int64))


def found(kinds: list[pa.DataType], one: dict[Any, int], other: dict[Any, int]) -> dict[Any, int]:
    left = unequal(bag(kinds, one), bag(kinds, other))
    rows = [tuple(row.values()) for row in left.rows.to_pylist()]
    return dict(zip(rows, left.weights.tolist(), strict=True))


LONG, DOUBLE = [pa.int64()], [pa.int64(), pa.float64()]


def test_rows_in_excess_and_missing_are_told_apart() -> None:
    assert found(LONG, {(1,): 2, (2,): 1}, {(1,): 1, (3,): 1}) == {(1,): 1, (2,): 1, (3,): -1}


def test_equal_bags_have_no_difference() -> None:
    rows = {(1, float("nan")): 2, (2, None): 1, (3, 0.3): 1}

    assert found(DOUBLE, rows, dict(reversed(rows.items()))) == {}


def test_the_last_digit_of_a_float_does_not_count() -> None:
    assert found(DOUBLE, {(1, NEAR): 2, (2, 1.0): 1}, {(1, 0.3): 2, (2, 1.0): 1}) == {}
    assert found(DOUBLE, {(1, NEAR): 3}, {(1, 0.3): 2}) == {(1, NEAR): 1}


@pytest.mark.parametrize("other", [0.3001, float("nan"), None, -0.3])
def test_another_float_does_count(other: float | None) -> None:
    left = unequal(bag(DOUBLE, {(1, 0.3): 1}), bag(DOUBLE, {(1, other): 1}))

    assert sorted(left.weights.tolist()) == [-1, 1]


def test_rows_with_another_key_are_other_rows() -> None:
    assert found(DOUBLE, {(1, NEAR): 1}, {(2, 0.3): 1}) == {(1, NEAR): 1, (2, 0.3): -1}


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (pa.large_list(pa.float64()), [NEAR, 1.0], [0.3, 1.0]),
        (
            pa.struct([("a", pa.float64()), ("b", pa.large_string())]),
            {"a": NEAR, "b": "x"},
            {"a": 0.3, "b": "x"},
        ),
        (pa.map_(pa.int64(), pa.float64()), [(1, NEAR)], [(1, 0.3)]),
    ],
)
def test_floats_inside_other_values_are_compared_the_same_way(
    kind: pa.DataType, one: object, other: object
) -> None:
    assert len(unequal(bag([kind], {}), bag([kind], {}))) == 0
    schema = pa.schema([pa.field("c", kind)])
    left, right = (
        ZSet.of(pa.RecordBatch.from_arrays([pa.array([value], kind)], schema=schema))
        for value in (one, other)
    )

    assert len(unequal(left, right)) == 0
    assert len(unequal(left, ZSet.empty(schema))) == 1


def test_rows_that_agree_in_one_float_are_paired_by_the_other() -> None:
    kinds = [pa.int64(), pa.float64(), pa.float64()]
    one = {(1, NEAR, 5.0): 1, (1, 0.3, 7.0): 1, (1, 0.3, float("nan")): 1, (1, 0.3, None): 1}
    other = {(1, 0.3, 5.0): 1, (1, NEAR, 7.0): 1, (1, NEAR, float("nan")): 1, (1, 0.3, 9.0): 1}

    assert found(kinds, one, other) == {(1, 0.3, None): 1, (1, 0.3, 9.0): -1}


def test_a_row_that_is_there_several_times_is_paired_with_several() -> None:
    near = [1.0 + step * 1e-12 for step in range(5)]
    one, other = {(1, near[2]): 4}, {(1, near[0]): 2, (1, near[4]): 1}

    assert found(DOUBLE, one, other) == {(1, near[2]): 1}
    assert found(DOUBLE, other, one) == {(1, near[2]): -1}


def test_of_many_rows_that_are_all_close_none_is_left_over() -> None:
    seconds = [1.7e9 + step / 1024 for step in range(2_000)]
    one, other = ({(1, at): 1 for at in seconds[start::2]} for start in range(2))

    assert found(DOUBLE, one, other) == {}
