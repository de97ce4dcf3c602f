"""Z-sets against plain Python: grouping, hashing and adding up by the true values, for every type."""

import datetime as dt
import decimal
import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.testing.bags import canonical
from tidemill.pipeline.zset import (
    ZSet,
    concat,
    consolidate,
    equal_rows,
    from_ipc,
    group_rows,
    hash_rows,
    hashing,
    multiply_checked,
    null_mask,
    shard_of,
    sum_at,
    sum_groups,
    to_ipc,
)

TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-2, 2),
    pa.int64(): st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]),
    pa.float32(): st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf]),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, math.nan, -math.inf]),
    pa.decimal128(38, 2): st.sampled_from(
        [decimal.Decimal("1.20"), decimal.Decimal("-99999999999999999999.01")]
    ),
    pa.large_string(): st.sampled_from(
        ["", "a", "b", "abcdefgh", "abcdefghi", "ü" * 9, "x" * 300, "x" * 299 + "y"]
    ),
    pa.large_binary(): st.sampled_from([b"", b"\0", b"\0\0", b"12345678\0"]),
    pa.date32(): st.sampled_from([dt.date(1970, 1, 1), dt.date(1, 1, 1)]),
    pa.timestamp("us", "UTC"): st.sampled_from([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]),
    pa.null(): st.none(),
}
NESTED: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.large_list(pa.float64()): st.lists(TYPES[pa.float64()] | st.none(), max_size=3),
    pa.large_list(pa.large_list(pa.int8())): st.lists(
        st.lists(st.integers(0, 1), max_size=2) | st.none(), max_size=2
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
ALL = TYPES | NESTED


@st.composite
def zsets(draw: st.DrawFn) -> ZSet:
    kinds = draw(st.lists(st.sampled_from(list(ALL)), min_size=1, max_size=3))
    size = draw(st.integers(0, 12))
    arrays = [
        pa.array(draw(st.lists(ALL[kind] | st.none(), min_size=size, max_size=size)), kind) for kind in kinds
    ]
    rows = pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(len(kinds))])
    weights = draw(st.lists(st.integers(-2, 3), min_size=size, max_size=size))
    start = draw(st.integers(0, size))
    return ZSet(rows, np.array(weights, np.int64)).slice(start, size - start)


def as_bag(z: ZSet) -> Counter[Any]:
    bag: Counter[Any] = Counter()
    for row, weight in zip(
        zip(*(column.to_pylist() for column in z.rows.columns), strict=True), z.weights, strict=True
    ):
        bag[canonical(row)] += int(weight)
    return Counter({row: weight for row, weight in bag.items() if weight})


@given(zsets())
@settings(max_examples=300, deadline=None)
def test_consolidated_rows_are_those_of_a_plain_count(z: ZSet) -> None:
    found = consolidate(z)

    assert as_bag(found) == as_bag(z)
    assert len(found) == len(as_bag(z))


@given(zsets())
@settings(max_examples=200, deadline=None)
def test_colliding_hashes_do_not_mix_rows(z: ZSet) -> None:
    groups = group_rows(z.rows, hashes=hash_rows(z.rows) & np.uint64(1))
    bag = Counter(canonical(row) for row in zip(*(c.to_pylist() for c in z.rows.columns), strict=True))

    assert len(groups) == len(bag)
    assert sorted(groups.sum(np.ones(len(z), np.int64)).tolist()) == sorted(bag.values())


@given(zsets())
@settings(max_examples=200, deadline=None)
def test_rows_are_equal_exactly_when_their_values_are(z: ZSet) -> None:
    if not len(z):
        return
    other = z.take(np.roll(np.arange(len(z)), 1))
    rows = [canonical(row) for row in zip(*(c.to_pylist() for c in z.rows.columns), strict=True)]
    expected = [rows[i] == rows[i - 1] for i in range(len(rows))]

    assert equal_rows(z.rows, other.rows).tolist() == expected
    hashes = hash_rows(z.rows)
    assert all(hashes[i] == hashes[i - 1] for i in range(len(rows)) if expected[i])


@given(zsets())
@settings(max_examples=100, deadline=None)
def test_bytes_give_the_same_z_set_back(z: ZSet) -> None:
    found = from_ipc(to_ipc(z))

    assert as_bag(found) == as_bag(z)
    assert found.schema == z.schema


def test_totals_travel_with_their_width() -> None:
    rows = pa.RecordBatch.from_pydict({"k": pa.array([1, 2], pa.int64())})
    found = from_ipc(to_ipc(ZSet(rows, np.array([[1, 2, 3], [4, 5, 6]], np.int64))))

    assert found.width == 3
    assert found.weights.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_rows_without_columns_keep_their_number() -> None:
    z = concat(
        [ZSet.of(pa.RecordBatch.from_pydict({"a": [1, 2]})).with_rows(_no_columns(2))] * 2, pa.schema([])
    )
    found = consolidate(from_ipc(to_ipc(z)))

    assert len(found) == 1
    assert found.weights.tolist() == [4]


def _no_columns(length: int) -> pa.RecordBatch:
    return ZSet.of(pa.RecordBatch.from_pydict({"a": list(range(length))})).rows.select([])


def test_hashes_never_change() -> None:
    """They lie in files: a change of any of these numbers makes every stored pipeline unreadable."""
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([1, None, -7], pa.int64()),
            pa.array(["tide", "", "a longer text than a word"], pa.large_string()),
            pa.array([1.5, -0.0, None], pa.float64()),
            pa.array([[1, 2], [], None], pa.large_list(pa.int32())),
        ],
        names=["a", "b", "c", "d"],
    )

    assert hash_rows(rows).tolist() == EXPECTED_HASHES


EXPECTED_HASHES = [12212429980416108443, 17858377144057933690, 7842842137295954521]


def test_integers_of_any_width_hash_alike() -> None:
    values = [0, 1, -1, 100]
    hashes = [
        hashing.hash_array(pa.array(values, kind)).tolist() for kind in (pa.int8(), pa.int32(), pa.int64())
    ]

    assert hashes[0] == hashes[1] == hashes[2]


def test_hashes_spread_over_all_shards() -> None:
    rows = pa.RecordBatch.from_pydict({"k": np.arange(64_000)})
    sizes = np.bincount(shard_of(hash_rows(rows)), minlength=64)

    assert sizes.min() > 800
    assert sizes.max() < 1200


def test_a_sum_of_weights_that_does_not_fit_is_refused() -> None:
    rows = pa.RecordBatch.from_pydict({"k": [1, 1, 2]})

    with pytest.raises(StepAborted, match="WEIGHT_OVERFLOW"):
        consolidate(ZSet(rows, np.array([2**62, 2**62, 1], np.int64)))
    assert consolidate(ZSet(rows, np.array([2**62, -(2**62), 1], np.int64))).weights.tolist() == [1]


def test_wide_weights_of_many_groups_are_added_up_alike() -> None:
    weights = np.arange(40_000, dtype=np.int64).reshape(-1, 4)
    starts = np.flatnonzero(np.arange(len(weights)) % 7 % 3 == 0)

    assert (sum_groups(weights, starts) == np.add.reduceat(weights, starts)).all()


def test_sums_at_places_that_do_not_fit_are_refused() -> None:
    weights = np.array([2**62, 2**62, -(2**62), 5], np.int64)

    assert sum_at(np.array([3, 1, 1, 1]), weights, 5).tolist() == [0, 5, 0, 2**62, 0]
    with pytest.raises(StepAborted, match="WEIGHT_OVERFLOW"):
        sum_at(np.array([1, 1, 0, 0]), weights, 2)


def test_a_product_of_weights_that_does_not_fit_is_refused() -> None:
    with pytest.raises(StepAborted, match="WEIGHT_OVERFLOW"):
        multiply_checked(np.array([2**40], np.int64), np.array([2**40], np.int64))
    assert multiply_checked(np.array([2**40, 1]), np.array([1, 2**40])).tolist() == [2**40, 2**40]


def test_a_null_in_any_key_column_is_found() -> None:
    rows = pa.RecordBatch.from_pydict(
        {"a": pa.array([1, None, 3]), "b": pa.array([None, 1, 2]), "c": [1, 2, 3]}
    )

    assert null_mask(rows, (0, 1)).tolist() == [True, True, False]
    assert null_mask(rows, (2,)).tolist() == [False, False, False]


@pytest.mark.parametrize("rows", [0, 1, 1_000, 50_000])
def test_hashes_are_put_in_order_and_equal_ones_stay_as_they_are(rows: int) -> None:
    random = np.random.default_rng(rows)
    spread = random.integers(0, 2**64, rows, np.uint64)
    for hashes in (
        spread,
        np.sort(spread),
        np.sort(spread)[::-1],
        spread[: rows // 2].repeat(2),
        spread % np.uint64(100),  # alike in their upper half
        (spread >> np.uint64(50)) << np.uint64(30),  # alike in parts of both halves
        np.concatenate([np.sort(spread[: rows // 3]), np.sort(spread[rows // 3 :])]),
    ):
        assert hashing.ascending(hashes).tolist() == np.argsort(hashes, kind="stable").tolist()
