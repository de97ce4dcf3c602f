"""Rows that differ by the rounding of floats find each other as if each was compared with each."""

import math
from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.api.differences import RELATIVE, unequal
from tidemill.pipeline.zset import ZSet

Row = tuple[int | None, float | None, float | None]
SCHEMA = pa.schema([("k", pa.int64()), ("a", pa.float64()), ("b", pa.float64())])
BASES = (0.0, 0.3, -0.3, 7e20, math.inf, math.nan)
JITTER = [1 + by * RELATIVE / 100 for by in range(10)]
ROUNDED = st.builds(lambda base, by: base * by, st.sampled_from(BASES), st.sampled_from(JITTER))
"""Two of one base are close, and no others are."""
CHAINED = st.integers(0, 30).map(lambda by: 0.3 * (1 + by * RELATIVE / 4))
"""Close to their neighbours, and not to those further away."""


def bags(first: st.SearchStrategy[float | None], other: st.SearchStrategy[float | None]) -> Any:
    return st.lists(st.tuples(st.sampled_from([None, 1, 2]), first, other), max_size=12)


def compared(ours: list[Row], theirs: list[Row]) -> tuple[list[Row], list[Row]]:
    """What ours has more, and theirs."""
    one, other = (
        ZSet.of(
            pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)
        )
        for rows in (ours, theirs)
    )
    left = unequal(one, other)
    rows = [tuple(row.values()) for row in left.rows.to_pylist()]
    weights = left.weights.tolist()
    more, less = (
        [row for row, by in zip(rows, weights, strict=True) for _ in range(sign * by)] for sign in (1, -1)
    )
    return more, less


def each_with_each(ours: list[Row], theirs: list[Row]) -> tuple[list[Row], list[Row]]:
    more, less = [], list(theirs)
    for row in ours:
        near = next((at for at, other in enumerate(less) if same(row, other)), None)
        if near is None:
            more.append(row)
        else:
            del less[near]
    return more, less


def same(one: Row, other: Row) -> bool:
    return all(map(close, one, other))


def close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=RELATIVE) or (math.isnan(one) and math.isnan(other))


def kinds(rows: list[Row]) -> Counter[str]:
    """The rows but for rounding."""
    return Counter(repr([None if value is None else f"{value:.6g}" for value in row]) for row in rows)


@settings(deadline=None)
@given(bags(st.none() | ROUNDED, st.none() | ROUNDED), bags(st.none() | ROUNDED, st.none() | ROUNDED))
def test_the_same_is_left_over(ours: list[Row], theirs: list[Row]) -> None:
    found, expected = compared(ours, theirs), each_with_each(ours, theirs)

    assert tuple(map(kinds, found)) == tuple(map(kinds, expected))


@settings(deadline=None)
@given(bags(CHAINED, st.none()), bags(CHAINED, st.none()))
def test_no_more_is_left_over_where_one_row_is_close_to_several(ours: list[Row], theirs: list[Row]) -> None:
    more, less = compared(ours, theirs)

    assert len(more) <= len(each_with_each(ours, theirs)[0])
    assert not any(same(one, other) for one in more for other in less)


@settings(deadline=None)
@given(bags(CHAINED, CHAINED), bags(CHAINED, CHAINED))
def test_nothing_is_left_over_on_both_sides_that_could_be_paired(ours: list[Row], theirs: list[Row]) -> None:
    more, less = compared(ours, theirs)

    assert len(ours) - len(more) == len(theirs) - len(less)
    assert not any(same(one, other) for one in more for other in less)
