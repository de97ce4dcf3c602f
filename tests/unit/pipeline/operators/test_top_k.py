"""The first rows of each group, against plain Python, however the changes come."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.plan.node import Arrange, OrderColumn, TopK
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.testing import Bag, Bench, ModelSpine, Rows, bag, check, feed, spark, streams
from tidemill.pipeline.zset import ZSet

SCHEMA = pa.schema([("k", pa.int8()), ("v", pa.float64()), ("x", pa.int8())])
ORDERS = st.lists(
    st.builds(OrderColumn, st.sampled_from([1, 2]), st.booleans(), st.booleans()),
    min_size=1,
    max_size=2,
    unique_by=lambda by: by.column,
)


def place(row: Any, order: list[OrderColumn]) -> tuple[Any, ...]:
    """What sorts rows."""
    found: list[Any] = []
    for by in order:
        value = row[by.column]
        if value is None:
            found.append((1 if by.nulls_last else -1, 0))
        else:
            number = (math.inf, 1) if value == "NaN" else (value, 0)
            found.append((0, tuple(-part for part in number) if by.descending else number))
    return tuple(found)


def first_rows(rows: Rows, node: TopK) -> Bag:
    groups: dict[Any, list[Any]] = {}
    for row, weight in bag(rows).items():
        groups.setdefault(tuple(row[key] for key in node.keys), []).extend([row] * weight)
    kept: Bag = Counter()
    for group in groups.values():
        places = sorted(place(row, list(node.order)) for row in group)
        distinct = sorted(set(places))
        for row in group:
            mine = place(row, list(node.order))
            number = {"rank": places.index(mine), "dense_rank": distinct.index(mine)}
            if node.ranking != "row_number":
                kept[row] += number[node.ranking] < node.count
        if node.ranking == "row_number":
            ordered = sorted(group, key=lambda row: place(row, list(node.order)))
            kept.update(ordered[node.offset : node.count])
    return kept


@given(
    streams([SCHEMA]),
    st.sampled_from([(0,), (), (0, 2)]),
    ORDERS,
    st.sampled_from(["rank", "dense_rank"]),
    st.integers(1, 4),
)
@settings(max_examples=100, deadline=None)
def test_equals_are_numbered_together(
    open_spine: Callable[[StateSpec], Any],
    steps: Any,
    keys: tuple[int, ...],
    order: list[OrderColumn],
    ranking: Any,
    count: int,
) -> None:
    node = TopK((1,), spark(SCHEMA), keys, tuple(order), ranking, count)
    nodes = [feed(SCHEMA), Arrange((0,), spark(SCHEMA), key=(0,)), node]
    check(nodes, steps, lambda rows: first_rows(rows, node), open_spine=open_spine)


@given(streams([SCHEMA]), st.sampled_from([(0,), ()]), st.booleans(), st.integers(1, 5), st.data())
@settings(max_examples=100, deadline=None)
def test_rows_that_differ_in_the_order_are_numbered_one_by_one(
    open_spine: Callable[[StateSpec], Any],
    steps: Any,
    keys: tuple[int, ...],
    down: bool,
    count: int,
    data: st.DataObject,
) -> None:
    order = (OrderColumn(1, down, not down), OrderColumn(2), OrderColumn(0, True))
    offset = data.draw(st.integers(0, count - 1))
    node = TopK((1,), spark(SCHEMA), keys, order, "row_number", count, offset)
    nodes = [feed(SCHEMA), Arrange((0,), spark(SCHEMA), key=(0,)), node]
    check(nodes, steps, lambda rows: first_rows(rows, node), open_spine=open_spine)


def number_of_rows(rows: Rows, count: int) -> Bag:
    sizes: Bag = Counter()
    for row, weight in bag(rows).items():
        sizes[row[:1]] += max(weight, 0)
    return Counter({key: min(size, count) for key, size in sizes.items() if size})


@given(streams([SCHEMA], max_steps=6), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_among_equals_some_are_kept_and_always_so_many(steps: Any, count: int) -> None:
    node = TopK((0,), spark(SCHEMA), (0,), (OrderColumn(1),), "row_number", count)
    bench = Bench([feed(SCHEMA), node], ModelSpine)
    there, kept = list[Any](), list[Any]()
    for step in steps:
        there += [*zip(*_plain(step[0]), strict=True)]
        kept += [*zip(*_plain(bench.step(step)), strict=True)]
        assert all(0 < weight <= bag(there)[row] for row, weight in bag(kept).items())
        assert number_of_rows(kept, 9**9) == number_of_rows(there, count)


def _plain(z: ZSet) -> tuple[list[Any], list[int]]:
    rows = [tuple("NaN" if value != value else value for value in row.values()) for row in z.rows.to_pylist()]
    return rows, z.weights.tolist()


def test_a_change_beyond_the_bound_reads_no_rows() -> None:
    asked: list[str] = []

    class Watched(ModelSpine):
        def extreme(self, *args: Any, **named: Any) -> Any:
            asked.append(self.spec.name)
            return super().extreme(*args, **named)

    def opened(spec: StateSpec) -> Watched:
        return Watched(spec)

    schema = pa.schema([("v", pa.int64())])
    node = TopK((0,), spark(schema), (), (OrderColumn(0, True),), "row_number", 2)
    bench = Bench([feed(schema), node], opened)
    bench.step([ZSet.of(pa.record_batch({"v": [5, 6, 7]}, schema))])
    asked.clear()
    far = bench.step([ZSet.of(pa.record_batch({"v": [1, 2, 5]}, schema))])
    assert (len(far), len(asked)) == (0, 1)
    near = bench.step([ZSet.of(pa.record_batch({"v": [8]}, schema))])

    assert sorted(zip(near.rows.column(0).to_pylist(), near.weights.tolist(), strict=True)) == [
        (6, -1),
        (8, 1),
    ]
    assert len(asked) == 4
