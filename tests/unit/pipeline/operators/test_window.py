"""Window functions against plain Python, however the changes come."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.operators.windows import sort_rows
from tidemill.pipeline.plan.node import AggregateCall, Arrange, Bound, OrderColumn, Window, WindowCall
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.testing import Bag, Bench, Rows, bag, check, feed, spark, streams
from tidemill.pipeline.zset import ZSet
from unit.pipeline.operators.test_top_k import place


@pytest.fixture(params=["whole", "near"], autouse=True, scope="module")
def computed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Partitions as a whole, or only what a change reaches where that is possible."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "near":
            patch.setattr("tidemill.pipeline.operators.window._SMALL_ROWS", -1)
            patch.setattr("tidemill.pipeline.operators.window._ROWS_PER_CHANGE", -1)
        yield


# The order is of all columns, so that there are no ties but equal rows; bounds are those of column 1.
SCHEMA = pa.schema([("k", pa.int8()), ("v", pa.int8()), ("x", pa.float64()), ("b", pa.bool_())])
ORDER = (OrderColumn(1), OrderColumn(2, True, False), OrderColumn(3, False, True))
FULL = (Bound(), Bound())
FRAMES = [
    FULL,
    (Bound(), Bound("rows", 0)),
    (Bound("rows", -2), Bound("rows", 1)),
    (Bound("rows", 1), Bound("rows", 2)),
    (Bound("rows", 2), Bound("rows", -2)),
    (Bound("rows", -1), Bound()),
    (Bound(), Bound("peers")),
    (Bound("peers"), Bound()),
    (Bound("peers"), Bound("rows", 1)),
    (Bound("peers"), Bound("peers")),
]


def call(function: str, kind: str | dict[str, object], *columns: int, **options: str) -> AggregateCall:
    further = {"further": columns[1:]} if len(columns) > 1 else {}
    return AggregateCall(function, columns[0] if columns else None, kind, None, options, **further)


def window(
    calls: list[WindowCall], order: tuple[OrderColumn, ...], keys: tuple[int, ...] = (0,)
) -> list[Any]:
    fields = [*spark(SCHEMA)["fields"]]
    for number, one in enumerate(calls):
        fields.append({"name": f"w{number}", "type": one.call.spark_type, "nullable": True, "metadata": {}})
    node = Window((1,), {"type": "struct", "fields": fields}, keys, order, tuple(calls))
    return [feed(SCHEMA), Arrange((0,), spark(SCHEMA), key=(0,)), node]


def in_order(rows: Rows, order: tuple[OrderColumn, ...]) -> list[list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for row, weight in bag(rows).items():
        groups.setdefault(row[:1], []).extend([row] * weight)
    return [sorted(group, key=lambda row: place(row, list(order))) for group in groups.values()]


def frame(at: int, group: list[Any], low: Bound, high: Bound, order: tuple[OrderColumn, ...]) -> list[Any]:
    places = [place(row, list(order)) for row in group]
    peers = [index for index, one in enumerate(places) if one == places[at]]
    start = {"unbounded": 0, "rows": at + low.at, "peers": peers[0]}[low.kind]
    stop = {"unbounded": len(group), "rows": at + high.at + 1, "peers": peers[-1] + 1}[high.kind]
    return group[max(start, 0) : max(stop, 0)]


def number(value: Any) -> Any:
    return math.nan if value == "NaN" else value


def total(values: list[Any]) -> Any:
    """The sum as Spark has it, rounded once."""
    values = [number(value) for value in values if value is not None]
    if not values:
        return None
    if not all(map(math.isfinite, values)):
        found = sum(value for value in values if not math.isfinite(value))
        return "NaN" if math.isnan(found) else found
    return float(sum(map(Fraction, values)))


MODELS: dict[str, tuple[AggregateCall, Callable[[list[Any]], Any]]] = {
    "count": (call("Count", "long"), len),
    "count of": (call("Count", "long", 2), lambda seen: sum(row[2] is not None for row in seen)),
    "sum": (
        call("Sum", "long", 1),
        lambda seen: sum(found) if (found := [row[1] for row in seen if row[1] is not None]) else None,
    ),
    "float sum": (call("Sum", "double", 2), lambda seen: total([row[2] for row in seen])),
    "min": (
        call("Min", "byte", 1),
        lambda seen: min((row[1] for row in seen if row[1] is not None), default=None),
    ),
    "max": (
        call("Max", "double", 2),
        lambda seen: max(
            (row[2] for row in seen if row[2] is not None),
            key=lambda value: (math.inf, 1) if value == "NaN" else (value, 0),
            default=None,
        ),
    ),
    "first": (call("First", "double", 2, ignoreNulls="false"), lambda seen: seen[0][2] if seen else None),
    "first of": (
        call("First", "byte", 1, ignoreNulls="true"),
        lambda seen: next((row[1] for row in seen if row[1] is not None), None),
    ),
    "last of": (
        call("Last", "byte", 1, ignoreNulls="true"),
        lambda seen: next((row[1] for row in reversed(seen) if row[1] is not None), None),
    ),
    "second": (
        call("NthValue", "double", 2, nth="2", ignoreNulls="false"),
        lambda seen: seen[1][2] if len(seen) > 1 else None,
    ),
    "list": (
        call("CollectList", {"type": "array", "elementType": "byte", "containsNull": False}, 1),
        lambda seen: tuple(row[1] for row in seen if row[1] is not None),
    ),
    "set": (
        call("CollectSet", {"type": "array", "elementType": "byte", "containsNull": False}, 1),
        lambda seen: tuple(sorted({row[1] for row in seen if row[1] is not None})),
    ),
}


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_frames_are_added_up_as_plain_python_does(
    open_spine: Callable[[StateSpec], Any], data: st.DataObject
) -> None:
    low, high = data.draw(st.sampled_from(FRAMES))
    function, model = MODELS[data.draw(st.sampled_from(sorted(MODELS)))]

    def answer(rows: Rows) -> Bag:
        return Counter(
            (*row, model(frame(at, group, low, high, ORDER)))
            for group in in_order(rows, ORDER)
            for at, row in enumerate(group)
        )

    nodes = window([WindowCall(function, low, high)], ORDER)
    check(nodes, data.draw(streams([SCHEMA], max_steps=3)), answer, open_spine=open_spine)


RANKS: dict[str, tuple[AggregateCall, Callable[[int, list[Any]], Any]]] = {
    "rank": (call("Rank", "integer"), lambda at, places: places.index(places[at]) + 1),
    "dense": (call("DenseRank", "integer"), lambda at, places: sorted(set(places)).index(places[at]) + 1),
    "percent": (
        call("PercentRank", "double"),
        lambda at, places: places.index(places[at]) / max(len(places) - 1, 1),
    ),
    "cume": (
        call("CumeDist", "double"),
        lambda at, places: sum(one <= places[at] for one in places) / len(places),
    ),
}


@given(
    st.sampled_from(sorted(RANKS)),
    st.sampled_from([(OrderColumn(1, True),), (OrderColumn(2, False, True), OrderColumn(3)), ()]),
    streams([SCHEMA], max_steps=3),
)
@settings(max_examples=50, deadline=None)
def test_peers_have_the_same_rank(
    open_spine: Callable[[StateSpec], Any], name: str, order: tuple[OrderColumn, ...], steps: Any
) -> None:
    function, model = RANKS[name]

    def answer(rows: Rows) -> Bag:
        return Counter(
            (*row, model(at, [place(one, list(order)) for one in group]))
            for group in in_order(rows, order)
            for at, row in enumerate(group)
        )

    check(window([WindowCall(function)], order), steps, answer, open_spine=open_spine)


def tile(at: int, size: int, buckets: int) -> int:
    bounds = [size // buckets + (bucket < size % buckets) for bucket in range(buckets)]
    return next(bucket for bucket in range(buckets) if at < sum(bounds[: bucket + 1])) + 1


@given(streams([SCHEMA], max_steps=3), st.integers(1, 4), st.integers(-3, 3), st.booleans(), st.booleans())
@settings(max_examples=50, deadline=None)
def test_places_and_neighbours(
    open_spine: Callable[[StateSpec], Any], steps: Any, buckets: int, away: int, ignore: bool, alone: bool
) -> None:
    nulls = str(ignore).lower()
    calls = [
        call("RowNumber", "integer"),
        call("NTile", "integer", buckets=str(buckets)),
        call("Lag", "byte", 1, away=str(away), ignoreNulls=nulls),
        call("Lead", "byte", 1, 0, away=str(away), ignoreNulls=nulls),
    ]

    def neighbour(at: int, group: list[Any]) -> tuple[bool, Any]:
        if away and ignore:
            side = group[at + 1 :] if away > 0 else group[:at][::-1]
            seen = [row[1] for row in side if row[1] is not None]
            return (True, seen[abs(away) - 1]) if len(seen) >= abs(away) else (False, None)
        there = 0 <= at + away < len(group)
        return there, group[at + away][1] if there else None

    def answer(rows: Rows) -> Bag:
        found: Bag = Counter()
        for group in in_order(rows, ORDER):
            for at, row in enumerate(group):
                there, value = neighbour(at, group)
                default = value if there else row[0]
                places = () if alone else (at + 1, tile(at, len(group), buckets))
                found[(*row, *places, value, default)] += 1
        return found

    if alone:  # without functions of the whole partition
        calls = calls[2:]
    check(window([WindowCall(one) for one in calls], ORDER), steps, answer, open_spine=open_spine)


def _monotone(change: ZSet, *, down: bool) -> ZSet:
    """The change with bounds that are the value, moved."""
    value = change.rows.column(1)
    back, ahead = (2.5, -1.5) if down else (-2.5, 1.5)
    bounds = [pc.add(value, back), pc.add(value, ahead)]
    columns = [change.rows.column(0), value, *bounds]
    return change.with_rows(pa.RecordBatch.from_arrays(columns, schema=change.schema))


BOUNDED = pa.schema([("k", pa.int8()), ("v", pa.float64()), ("low", pa.float64()), ("high", pa.float64())])


@given(streams([BOUNDED], max_steps=3), st.booleans(), st.booleans())
@settings(max_examples=50, deadline=None)
def test_frames_by_value_take_in_what_lies_between_the_bounds(
    open_spine: Callable[[StateSpec], Any], steps: Any, down: bool, last: bool
) -> None:
    order = (OrderColumn(1, down, last),)
    steps = [tuple(_monotone(change, down=down) for change in step) for step in steps]
    fields = [*spark(BOUNDED)["fields"], {"name": "n", "type": "long", "nullable": True, "metadata": {}}]
    calls = (WindowCall(call("Count", "long"), Bound("value", 2), Bound("value", 3)),)
    node = Window((1,), {"type": "struct", "fields": fields}, (0,), order, calls)
    nodes = [feed(BOUNDED), Arrange((0,), spark(BOUNDED), key=(0,)), node]

    def seen(row: Any, other: Any) -> bool:
        low, high = ((None, row[column]) for column in (2, 3))
        return place(low, list(order)) <= place(other, list(order)) <= place(high, list(order))

    def answer(rows: Rows) -> Bag:
        return Counter(
            (*row, sum(seen(row, other) for other in group))
            for group in in_order(rows, order)
            for row in group
        )

    check(nodes, steps, answer, open_spine=open_spine)


def test_a_change_in_a_large_partition_reads_what_is_near(
    open_spine: Callable[[StateSpec], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    fields = [*spark(schema)["fields"], {"name": "s", "type": "long", "nullable": True, "metadata": {}}]
    calls = (WindowCall(call("Sum", "long", 1), Bound("rows", -2), Bound("rows", 1)),)
    node = Window((0,), {"type": "struct", "fields": fields}, (0,), (OrderColumn(1),), calls)
    bench = Bench([feed(schema), node], open_spine)
    bench.step([ZSet.of(pa.record_batch({"k": [0] * 2000, "v": range(0, 4000, 2)}, schema))])
    sorted_rows: list[int] = []

    def counted(found: ZSet, *args: Any) -> Any:
        sorted_rows.append(len(found))
        return sort_rows(found, *args)

    monkeypatch.setattr("tidemill.pipeline.operators.window.sort_rows", counted)
    change = bench.step([ZSet.of(pa.record_batch({"k": [0], "v": [1001]}, schema))])

    near = [996, 998, 1000, 1001, 1002, 1004, 1006]
    new = change.filter(change.weights > 0).rows.column(2).to_pylist()
    assert sorted(new) == [sum(near[at : at + 4]) for at in range(4)]
    assert max(sorted_rows) <= 8


def test_sums_of_parts_of_frames_do_not_matter(open_spine: Callable[[StateSpec], Any]) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    fields = [*spark(schema)["fields"], {"name": "s", "type": "long", "nullable": True, "metadata": {}}]
    calls = (WindowCall(call("Sum", "long", 1), Bound("rows", -2), Bound("rows", 0)),)
    node = Window((0,), {"type": "struct", "fields": fields}, (), (OrderColumn(0),), calls)
    bench = Bench([feed(schema), node], open_spine)
    most = 2**63 - 1
    values = [0, -most, most, most, -most, most, 0, 0]  # the third and fourth alone would be too much
    bench.step([ZSet.of(pa.record_batch({"k": range(0, 16, 2), "v": values}, schema))])
    change = bench.step([ZSet.of(pa.record_batch({"k": [7], "v": [-most]}, schema))])

    new = change.filter(change.weights > 0).rows
    sums = dict(zip(new.column(0).to_pylist(), new.column(2).to_pylist(), strict=True))
    assert sums == {7: most, 8: -most, 10: -most}
