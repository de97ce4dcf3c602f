"""Aggregates that look at all values of a group, against plain Python."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline import types
from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.plan.expression import Literal, literal
from tidemill.pipeline.plan.node import Aggregate, AggregateCall, Arrange, Combine, Node
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.testing import Bag, Bench, Rows, bag, check, feed, rows_of, spark
from tidemill.pipeline.testing.bags import canonical
from tidemill.pipeline.testing.streams import VALUES, streams
from tidemill.pipeline.zset import ZSet
from unit.pipeline.operators.aggregation import rank

MAP = pa.map_(pa.large_string(), pa.int8())
KINDS = [kind for kind in VALUES if kind != MAP]
DECIMAL = pa.decimal128(38, 2)
OPTIONS = settings(max_examples=25, deadline=None)
OpenSpine = Callable[[StateSpec], Any]
Members = list[tuple[Any, int]]


class Case(NamedTuple):
    """An aggregate over columns of these types, which come after the key and a flag."""

    schema: pa.Schema
    call: AggregateCall

    def nodes(self, keys: tuple[int, ...]) -> list[Node]:
        fields = [self.schema.field(key) for key in keys] + [("value", self.call.type)]
        schema = spark(self.schema)
        return [
            feed(self.schema),
            Arrange((0,), schema, key=(0,)),
            Combine((1,), schema, keys, (self.call,)),
            Aggregate((2,), spark(pa.schema(fields)), keys, (self.call,), schema),
        ]


def case(
    function: str,
    kinds: Sequence[pa.DataType],
    result: pa.DataType,
    *constants: Literal,
    where: int | None = None,
    **options: str,
) -> Case:
    columns = [(f"c{place}", kind) for place, kind in enumerate(kinds)]
    further = (*range(3, 2 + len(kinds)), *constants)
    call = AggregateCall(function, 2, types.to_spark(result), where, options, further)
    return Case(pa.schema([("k", pa.int8()), ("flag", pa.bool_()), *columns]), call)


def model(
    each: AggregateCall, keys: tuple[int, ...], value: Callable[[Members], Any]
) -> Callable[[Rows], Bag]:
    """`value` is handed what the columns of each row are that passes the filter, in order, each once."""

    def answer(rows: Rows) -> Bag:
        groups: dict[Any, Rows] = defaultdict(list)
        if not keys:
            groups[()] = []
        for row, weight in bag(rows).items():
            groups[tuple(row[key] for key in keys)].append((row, weight))
        return bag(
            (canonical((*key, value(members(each, found)))), 1)
            for key, found in groups.items()
            if not keys or sum(weight for _, weight in found) > 0
        )

    return answer


def members(each: AggregateCall, rows: Rows) -> Members:
    passing = [pair for pair in rows if each.filter is None or pair[0][each.filter] is True]
    held = bag((tuple(row[column] for column in each.columns), weight) for row, weight in passing)
    return sorted(((row, weight) for row, weight in held.items() if weight > 0), key=lambda one: rank(one[0]))


KEYS = st.sampled_from([(), (0,)])
WHERE = st.sampled_from([None, 1])


def judge(data: st.DataObject, open_spine: OpenSpine, case: Case, value: Callable[[Members], Any]) -> None:
    keys, steps = data.draw(KEYS), data.draw(streams([case.schema]))
    check(case.nodes(keys), steps, model(case.call, keys, value), late=2, open_spine=open_spine)


def present(found: Members) -> Members:
    return [(row, weight) for row, weight in found if row[0] is not None]


def spread(found: Members) -> list[Any]:
    return [row[0] for row, weight in found for _ in range(weight)]


@OPTIONS
@given(data=st.data(), kind=st.sampled_from([*KINDS, MAP]), skips=st.booleans(), where=WHERE)
def test_a_list_has_all_values_in_order(
    open_spine: OpenSpine, data: st.DataObject, kind: pa.DataType, skips: bool, where: Any
) -> None:
    listed = pa.large_list(pa.field("element", kind, nullable=not skips))
    each = case("CollectList", [kind], listed, where=where, ignoreNulls=str(skips).lower())
    judge(data, open_spine, each, lambda found: tuple(spread(present(found) if skips else found)))


@OPTIONS
@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_a_set_has_each_value_once(open_spine: OpenSpine, data: st.DataObject, kind: pa.DataType) -> None:
    each = case("CollectSet", [kind], pa.large_list(pa.field("element", kind, nullable=False)))
    judge(data, open_spine, each, lambda found: tuple(row[0] for row, _ in present(found)))


@OPTIONS
@given(data=st.data(), between=st.sampled_from([None, "", ", "]))
def test_texts_are_joined(open_spine: OpenSpine, data: st.DataObject, between: str | None) -> None:
    each = case("ListAgg", [pa.large_string()], pa.large_string(), literal(between, pa.large_string()))
    judge(
        data,
        open_spine,
        each,
        lambda found: (between or "").join(spread(present(found))) if present(found) else None,
    )


@OPTIONS
@given(data=st.data())
def test_bytes_are_joined_in_the_order_of_other_columns(open_spine: OpenSpine, data: st.DataObject) -> None:
    kind, order = pa.large_binary(), "desc nulls first, asc nulls last"
    each = case("ListAgg", [kind, pa.float64(), pa.int32()], kind, literal(b"\1", kind), order=order)

    def joined(found: Members) -> bytes | None:
        found = sorted(present(found), key=lambda one: (one[0][2] is None, one[0][2] or 0))
        number = lambda one: (0,) if one[0][1] is None else (1, _turned(rank(one[0][1])))  # noqa: E731
        return b"\1".join(spread(sorted(found, key=number))) if found else None

    judge(data, open_spine, each, joined)


def _turned(code: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(-part for part in code)


SHARES = [0.0, 0.1, 0.25, 0.5, 0.9, 1.0]


@OPTIONS
@given(
    data=st.data(),
    share=st.sampled_from(SHARES),
    kind=st.sampled_from([pa.float64(), pa.int32(), DECIMAL]),
    turned=st.booleans(),
)
def test_a_percentile_lies_between_the_nearest_values(
    open_spine: OpenSpine, data: st.DataObject, share: float, kind: pa.DataType, turned: bool
) -> None:
    constants = literal(share, pa.float64()), literal(1, pa.int32())
    each = case("Percentile", [kind], pa.float64(), *constants, reverse=str(turned).lower())
    judge(data, open_spine, each, lambda found: percentile(spread(present(found)), share, turned))


def percentile(values: list[Any], share: float, turned: bool = False) -> float | None:
    if not values:
        return None
    numbers = [math.nan if one == "NaN" else float(one) for one in (values[::-1] if turned else values)]
    place = (len(numbers) - 1) * share
    low, high = numbers[math.floor(place)], numbers[math.ceil(place)]
    if low == high or place == math.floor(place):
        return low
    return low + (place - math.floor(place)) * (high - low)


@OPTIONS
@given(data=st.data(), share=st.sampled_from(SHARES), turned=st.booleans())
def test_a_discrete_percentile_is_one_of_the_values(
    open_spine: OpenSpine, data: st.DataObject, share: float, turned: bool
) -> None:
    constants = literal(share, pa.float64())
    each = case("PercentileDisc", [pa.float64()], pa.float64(), constants, reverse=str(turned).lower())

    def value(found: Members) -> float | None:
        values = spread(present(found))[:: -1 if turned else 1]
        return values[max(math.ceil(len(values) * share) - 1, 0)] if values else None

    judge(data, open_spine, each, value)


@OPTIONS
@given(data=st.data())
def test_percentiles_come_as_an_array(open_spine: OpenSpine, data: st.DataObject) -> None:
    kind = pa.large_list(pa.field("element", pa.float64(), nullable=False))
    each = case("Percentile", [pa.int32()], kind, literal([0.2, 0.5], kind), literal(2, pa.int32()))

    def value(found: Members) -> Any:
        values = [one for one in spread(present(found)) for _ in range(2)]
        return (percentile(values, 0.2), percentile(values, 0.5)) if values else None

    judge(data, open_spine, each, value)


def weighted(*rows: tuple[float, int | None]) -> tuple[Case, ZSet]:
    each = case("Percentile", [pa.float64(), pa.int32()], pa.float64(), literal(0.5, pa.float64()))
    full = [{"c0": number, "c1": times} for number, times in rows]
    return each, ZSet.of(pa.RecordBatch.from_pylist(full, each.schema))


def test_a_frequency_says_how_often_a_row_counts() -> None:
    each, rows = weighted((1.0, 1), (2.0, 0), (9.0, 3), (0.0, None))

    assert rows_of(Bench(each.nodes(())).step([rows])) == [((9.0,), 1)]


def test_a_negative_frequency_aborts_the_step() -> None:
    each, rows = weighted((1.0, -1))

    with pytest.raises(StepAborted, match=r"\[NEGATIVE_VALUES_IN_FREQUENCY_EXPRESSION\]"):
        Bench(each.nodes(())).step([rows])


@OPTIONS
@given(data=st.data(), kind=st.sampled_from(KINDS), turned=st.sampled_from(["true", "false"]))
def test_the_mode_is_the_most_frequent_value(
    open_spine: OpenSpine, data: st.DataObject, kind: pa.DataType, turned: str
) -> None:
    each = case("Mode", [kind], kind, reverseOpt=turned)

    def value(found: Members) -> Any:
        most = max((weight for _, weight in present(found)), default=0)
        best = [row[0] for row, weight in present(found) if weight == most]
        return best[0 if turned == "true" else -1] if best else None

    judge(data, open_spine, each, value)


@OPTIONS
@given(data=st.data(), name=st.sampled_from(["First", "Last"]), skips=st.booleans())
def test_first_and_last_are_of_one_row(
    open_spine: OpenSpine, data: st.DataObject, name: str, skips: bool
) -> None:
    each = case(
        name, [pa.float64(), pa.large_string()], pa.large_string(), ignoreNulls=str(skips).lower(), place="1"
    )

    def value(found: Members) -> Any:
        rows = [row for row, _ in found if not skips or None not in row]
        return rows[0 if name == "First" else -1][1] if rows else None

    judge(data, open_spine, each, value)


@OPTIONS
@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_a_pivot_puts_values_in_their_places(
    open_spine: OpenSpine, data: st.DataObject, kind: pa.DataType
) -> None:
    """There is at most one value for each place in the plans of Spark; here it is the greatest.

    Spark finds no NaN there.
    """
    names = data.draw(st.lists(VALUES[kind] | st.none(), min_size=1, max_size=3, unique_by=repr))
    array = literal(names, pa.large_list(kind))
    each = case("PivotFirst", [kind, pa.int64()], pa.large_list(pa.int64()), array)
    places = canonical(tuple(array.value.as_py()))

    def value(found: Members) -> Any:
        held = [
            [row[1] for row, _ in found if row[0] == name != "NaN" and row[1] is not None] for name in places
        ]
        return tuple(values[-1] if values else None for values in held)

    if len(set(places)) == len(places):
        judge(data, open_spine, each, value)


def test_values_that_hold_maps_are_in_the_order_of_the_entries() -> None:
    kind = pa.large_list(pa.field("element", pa.struct([("inner", MAP)])))
    each = case("CollectList", [kind], pa.large_list(kind))
    values: list[Any] = [
        [{"inner": [("a", 2)]}],
        None,
        [{"inner": [("a", 1)]}, {"inner": None}],
        [],
        [{"inner": []}],
    ]
    rows = pa.RecordBatch.from_pylist([{"c0": value} for value in values], each.schema)

    [((found,), _)] = rows_of(Bench(each.nodes(())).step([ZSet.of(rows)]))

    assert list(found) == [canonical(values[at]) for at in (3, 4, 2, 0)]
