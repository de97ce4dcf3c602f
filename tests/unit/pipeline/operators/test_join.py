"""Inner joins against nested loops."""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.operators import join
from tidemill.pipeline.plan.expression import Tree, call, column, literal
from tidemill.pipeline.plan.node import Arrange, Join, JoinBound, Node
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.testing import VALUES, Bag, Bench, Rows, bag, check, columns, feed, spark, streams
from tidemill.pipeline.zset import ZSet

OpenSpine = Callable[[StateSpec], Any]
LONG = pa.int64()


@pytest.fixture(autouse=True, scope="module")
def _small_pieces() -> Iterator[None]:
    """So that a few rows make several pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join, "_KEYS", 2)
        patch.setattr(join, "_PAIRS", 3)
        patch.setattr(join, "_FIRST", 2)
        yield


def nested_loops(left: Rows, right: Rows, left_key: tuple[int, ...], right_key: tuple[int, ...]) -> Bag:
    return bag(
        (one + other, weight * times)
        for one, weight in bag(left).items()
        for other, times in bag(right).items()
        if [one[i] for i in left_key] == [other[i] for i in right_key]
        if all(one[i] is not None for i in left_key)
    )


def joined(left: pa.Schema, right: pa.Schema) -> Any:
    return spark(pa.schema([field.with_name(f"j{i}") for i, field in enumerate([*left, *right])]))


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_pairs_are_those_of_nested_loops(open_spine: OpenSpine, data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(VALUES)), max_size=2))
    old, new = data.draw(columns(pa.int8(), *kinds, more=1)), data.draw(columns(*kinds, more=1))
    old_key, new_key = tuple(range(1, len(kinds) + 1)), tuple(range(len(kinds)))
    nodes: list[Node] = [
        feed(old),
        Arrange((0,), spark(old), key=old_key),
        feed(new),
        Arrange((2,), spark(new), key=()),
        Arrange((3,), spark(new), key=new_key),
    ]
    steps = data.draw(streams([old, new]))
    late = data.draw(st.sampled_from([1, 2]))  # the join alone, or with one of its inputs

    if data.draw(st.booleans()):
        nodes.append(Join((1, 4), joined(old, new), condition=None))
        model = lambda a, b: nested_loops(a, b, old_key, new_key)  # noqa: E731
    else:
        nodes.append(Join((4, 1), joined(new, old), condition=None))
        model = lambda a, b: nested_loops(b, a, new_key, old_key)  # noqa: E731
    check(nodes, steps, model, late=late, open_spine=open_spine)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_join_with_itself_is_right(open_spine: OpenSpine, data: st.DataObject) -> None:
    schema = data.draw(columns(pa.int8()))
    nodes = [
        feed(schema),
        Arrange((0,), spark(schema), key=(0,)),
        Join((1, 1), joined(schema, schema), condition=None),
    ]

    check(
        nodes,
        data.draw(streams([schema])),
        lambda rows: nested_loops(rows, rows, (0,), (0,)),
        open_spine=open_spine,
    )


PAIR = pa.schema([("k", pa.int8()), ("x", LONG)])


def two_sides(condition: Tree | None) -> list[Node]:
    return [
        feed(PAIR),
        Arrange((0,), spark(PAIR), key=(0,)),
        feed(PAIR),
        Arrange((2,), spark(PAIR), key=(0,)),
        Join((1, 3), joined(PAIR, PAIR), condition=condition),
    ]


@given(streams([PAIR, PAIR]))
@settings(max_examples=60, deadline=None)
def test_only_pairs_for_which_the_condition_is_true_stay(
    open_spine: OpenSpine, steps: list[tuple[ZSet, ...]]
) -> None:
    less = call("LessThan", column(1, LONG), column(3, LONG), type=pa.bool_())

    def model(left: Rows, right: Rows) -> Bag:
        pairs = nested_loops(left, right, (0,), (0,))
        return bag((p, n) for p, n in pairs.items() if None not in (p[1], p[3]) and p[1] < p[3])

    check(two_sides(less), steps, model, open_spine=open_spine)


COMPARED = {
    "<": ("LessThan", operator.lt),
    "<=": ("LessThanOrEqual", operator.le),
    ">": ("GreaterThan", operator.gt),
    ">=": ("GreaterThanOrEqual", operator.ge),
}


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_ranges_are_those_of_nested_loops(open_spine: OpenSpine, data: st.DataObject) -> None:
    """Of rows (k, x) on the left and (k, lo, hi) on the right, ordered or not."""
    right = PAIR.append(pa.field("y", LONG))
    bounds = [
        (1, data.draw(st.sampled_from([*COMPARED])), at) for at in data.draw(st.sampled_from([(1,), (1, 2)]))
    ]
    tests = [
        call(COMPARED[sign][0], column(one, LONG), column(other + 2, LONG), type=pa.bool_())
        for one, sign, other in bounds
    ]
    condition = tests[0] if len(tests) == 1 else call("And", *tests, type=pa.bool_())
    key = data.draw(st.sampled_from([(), (0,)]))
    order = st.sampled_from([(), (1,)])
    nodes = [
        feed(PAIR),
        Arrange((0,), spark(PAIR), key=key, order=data.draw(order)),
        feed(right),
        Arrange((2,), spark(right), key=key, order=data.draw(order)),
        Join((1, 3), joined(PAIR, right), condition, tuple(JoinBound(*bound) for bound in bounds)),
    ]

    def model(one: Rows, other: Rows) -> Bag:
        found = nested_loops(one, other, key, key)
        for at, sign, to in bounds:
            true = COMPARED[sign][1]
            found = bag(
                (p, n) for p, n in found.items() if None not in (p[at], p[to + 2]) and true(p[at], p[to + 2])
            )
        return found

    check(nodes, data.draw(streams([PAIR, right])), model, open_spine=open_spine)


def pairs(*rows: tuple[int, int, int]) -> ZSet:
    """A change of PAIR: key, value, weight."""
    values = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    arrays = [pa.array(values[i], PAIR.field(i).type) for i in range(2)]
    return ZSet(pa.RecordBatch.from_arrays(arrays, schema=PAIR), np.array(values[2], np.int64))


def test_a_pair_that_never_was_cannot_raise(open_spine: OpenSpine) -> None:
    """10 div (left.x - right.x) raises where both are equal."""
    difference = call("Subtract", column(1, LONG), column(3, LONG), type=LONG, mode="ANSI")
    quotient = call("IntegralDivide", literal(10, LONG), difference, type=LONG, mode="ANSI")
    bench = Bench(two_sides(call("GreaterThan", quotient, literal(0, LONG), type=pa.bool_())), open_spine)

    bench.step([pairs((1, 5, 1)), pairs((1, 4, 1))])
    bench.step([pairs((1, 5, -1)), pairs((1, 5, 1))])  # (5, 5) goes and comes at once
    bench.step([pairs((1, 6, 1)), pairs((1, 5, -1))])
    change = bench.step([pairs((1, 5, 1)), pairs()])  # the right 5 is gone, though in the runs of its state

    assert change.rows.column(1).to_pylist() == [5]
    with pytest.raises(StepAborted, match="DIVIDE_BY_ZERO"):
        bench.step([pairs(), pairs((1, 6, 1))])


def test_a_frequent_key_is_right(open_spine: OpenSpine) -> None:
    many = pairs(*((1, x, 1) for x in range(30)))
    bench = Bench(two_sides(None), open_spine)

    assert len(bench.step([many, many])) == 900
    assert int(bench.step([many.negate(), many]).weights.sum()) == -900


def test_a_product_of_weights_that_does_not_fit_is_refused() -> None:
    bench = Bench(two_sides(None))

    with pytest.raises(StepAborted, match="WEIGHT_OVERFLOW"):
        bench.step([pairs((1, 1, 2**40)), pairs((1, 1, 2**40))])


@given(st.lists(st.integers(1, 7), max_size=20))
def test_pieces_are_bounded_and_cover_all(counts: list[int]) -> None:
    cuts = list(join._cuts(np.array(counts, np.int64)))

    assert [i for first, end in cuts for i in range(first, end)] == list(range(len(counts)))
    assert all(first < end for first, end in cuts)
    assert all(sum(counts[first:end]) < 3 + 7 + 7 for first, end in cuts)
