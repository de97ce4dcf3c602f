"""Fixed points against searching the graph anew: closures, distances, cycles, and what never ends."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.plan import node as nodes
from tidemill.pipeline.plan.expression import call, column, literal
from tidemill.pipeline.plan.node import AggregateCall, AnyNode
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.testing import Bag, Bench, Rows, bag, check, feed, spark
from tidemill.pipeline.zset import ZSet

LONG = pa.int64()
EDGES = pa.schema([("a", LONG), ("b", LONG)])
BLOCKED = pa.schema([("p", LONG)])
ROADS = pa.schema([("a", LONG), ("b", LONG), ("cost", LONG)])


def closure(schema: pa.Schema = EDGES, *, limit: int = 100) -> nodes.Loop:
    """reach(a, b): an edge, or an edge after what is reached."""
    pairs = pa.schema([*schema, *schema])
    body: tuple[AnyNode, ...] = (
        nodes.LoopInput((), spark(schema), 0),
        nodes.Distinct((0,), spark(schema)),
        nodes.LoopVariable((), spark(schema)),
        nodes.Arrange((2,), spark(schema), (1,)),
        nodes.Arrange((1,), spark(schema), (0,)),
        nodes.Join((3, 4), spark(pairs), None),
        nodes.Select((5,), spark(schema), None, (column(0, LONG), column(3, LONG))),
        nodes.Union((1, 6), spark(schema)),
        nodes.Distinct((7,), spark(schema)),
    )
    return nodes.Loop((0,), spark(schema), body, limit)


def shortest() -> nodes.Loop:
    """distance(a, b): the least of a road and a road after a distance."""
    kind = spark(ROADS)
    pairs = pa.schema([*ROADS, *ROADS])
    longer = call("Add", column(2, LONG), column(5, LONG), type=LONG, mode="ANSI")
    least = (AggregateCall("Min", 2, "long"),)
    body: tuple[AnyNode, ...] = (
        nodes.LoopInput((), kind, 0),
        nodes.Distinct((0,), kind),
        nodes.LoopVariable((), kind),
        nodes.Arrange((2,), kind, (1,)),
        nodes.Arrange((1,), kind, (0,)),
        nodes.Join((3, 4), spark(pairs), None),
        nodes.Select((5,), kind, None, (column(0, LONG), column(4, LONG), longer)),
        nodes.Union((1, 6), kind),
        nodes.Combine((7,), kind, (0, 1), least),
        nodes.Aggregate((8,), kind, (0, 1), least, kind),
    )
    return nodes.Loop((0,), kind, body, 100)


def avoiding() -> nodes.Loop:
    """reach(a, b) where b is not blocked: the mark's right does not refer to the loop."""
    kind, marked = spark(EDGES), spark(pa.schema([*EDGES, pa.field("exists", pa.bool_(), nullable=False)]))
    free = call("Not", column(2, pa.bool_()), type=pa.bool_())
    body: tuple[AnyNode, ...] = (
        nodes.LoopInput((), kind, 0),
        nodes.Distinct((0,), kind),
        nodes.LoopInput((), spark(BLOCKED), 1),
        nodes.LoopVariable((), kind),
        nodes.Arrange((3,), kind, (1,)),
        nodes.Arrange((1,), kind, (0,)),
        nodes.Join((4, 5), spark(pa.schema([*EDGES, *EDGES])), None),
        nodes.Select((6,), kind, None, (column(0, LONG), column(3, LONG))),
        nodes.Union((1, 7), kind),
        nodes.Distinct((8,), kind),
        nodes.Arrange((9,), kind, (1,)),
        nodes.Mark((10, 2), marked),
        nodes.Select((11,), kind, free, (column(0, LONG), column(1, LONG))),
    )
    return nodes.Loop((1, 3), kind, body, 100)


def spreading() -> nodes.Loop:
    """From point 0 along edges: the mark's right is the loop itself."""
    kind = spark(BLOCKED)
    marked = spark(pa.schema([*EDGES, pa.field("exists", pa.bool_(), nullable=False)]))
    seed = call("EqualTo", column(0, LONG), literal(0, LONG), type=pa.bool_())
    body: tuple[AnyNode, ...] = (
        nodes.LoopInput((), spark(EDGES), 0),
        nodes.Distinct((0,), spark(EDGES)),
        nodes.LoopVariable((), kind),
        nodes.Arrange((1,), spark(EDGES), (0,)),
        nodes.Mark((3, 2), marked),
        nodes.Select((4,), kind, column(2, pa.bool_()), (column(1, LONG),)),
        nodes.Select((1,), kind, seed, (column(1, LONG),)),
        nodes.Union((5, 6), kind),
        nodes.Distinct((7,), kind),
    )
    return nodes.Loop((1,), kind, body, 100)


def not_blocked(rows: Rows, blocked: Rows) -> Bag:
    edges = {row for row, weight in bag(rows).items() if weight > 0}
    closed = {row[0] for row, weight in bag(blocked).items() if weight > 0}
    found = {(a, b) for a, b in edges if b not in closed}
    while more := {(a, d) for a, b in found for c, d in edges if b == c and d not in closed} - found:
        found |= more
    return Counter(found)


def from_zero(rows: Rows) -> Bag:
    return Counter({(b,): 1 for a, b in reached(rows) if a == 0})


def reached(rows: Rows) -> Bag:
    edges = {row for row, weight in bag(rows).items() if weight > 0}
    found = set(edges)
    while more := {(a, d) for a, b in found for c, d in edges if b == c} - found:
        found |= more
    return Counter(found)


def distances(rows: Rows) -> Bag:
    roads = {row for row, weight in bag(rows).items() if weight > 0}
    best: dict[tuple[int, int], int] = {}
    for a, b, cost in roads:
        best[a, b] = min(cost, best.get((a, b), cost))
    while True:
        longer = [(a, d, cost + more) for (a, b), cost in best.items() for c, d, more in roads if b == c]
        better = [one for one in longer if one[2] < best.get(one[:2], 10**9)]
        if not better:
            return Counter((a, b, cost) for (a, b), cost in best.items())
        for a, b, cost in better:
            best[a, b] = min(cost, best.get((a, b), cost))


def graphs(schema: pa.Schema) -> st.SearchStrategy[list[tuple[ZSet]]]:
    """Few points, so that there are cycles and several ways; weights may leave a row there less than once."""
    row = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 4)).map(lambda r: r[: len(schema)])
    change = st.lists(st.tuples(row, st.sampled_from([1, 1, 1, -1, -1, 2])), max_size=8)
    return st.lists(change.map(lambda rows: (zset(schema, rows),)), min_size=1, max_size=5)


def zset(schema: pa.Schema, rows: list[tuple[tuple[int, ...], int]]) -> ZSet:
    arrays = [pa.array([row[at] for row, _ in rows], LONG) for at in range(len(schema))]
    weights = np.array([weight for _, weight in rows], np.int64)
    return ZSet(pa.RecordBatch.from_arrays(arrays, schema=schema), weights)


def arranged(schema: pa.Schema, loop: nodes.Loop) -> list[Any]:
    """The loop over a node that has a state, so that it can be created late."""
    return [feed(schema), nodes.Arrange((0,), spark(schema), (0,)), nodes.Loop((1,), *_rest(loop))]


def _rest(loop: nodes.Loop) -> tuple[Any, ...]:
    return loop.spark_schema, loop.body, loop.limit


@given(graphs(EDGES))
@settings(max_examples=40, deadline=None)
def test_what_is_reached_follows_edges_that_come_and_go(
    open_spine: Callable[[StateSpec], Any], steps: list[tuple[ZSet]]
) -> None:
    check(arranged(EDGES, closure()), steps, reached, open_spine=open_spine)


@given(graphs(ROADS))
@settings(max_examples=40, deadline=None)
def test_distances_follow_roads_that_come_and_go(
    open_spine: Callable[[StateSpec], Any], steps: list[tuple[ZSet]]
) -> None:
    check(arranged(ROADS, shortest()), steps, distances, open_spine=open_spine)


@given(graphs(EDGES), graphs(BLOCKED))
@settings(max_examples=40, deadline=None)
def test_ways_that_are_blocked_open_and_close(
    open_spine: Callable[[StateSpec], Any], edges: list[tuple[ZSet]], blocked: list[tuple[ZSet]]
) -> None:
    steps = [(edge, block) for (edge,), (block,) in zip(edges, blocked, strict=False)]
    inputs = [
        feed(EDGES),
        nodes.Arrange((0,), spark(EDGES), (0,)),
        feed(BLOCKED),
        nodes.Arrange((2,), spark(BLOCKED), (0,)),
    ]

    check([*inputs, avoiding()], steps, not_blocked, open_spine=open_spine)


@given(graphs(EDGES))
@settings(max_examples=40, deadline=None)
def test_what_is_in_the_loop_itself_can_be_asked(
    open_spine: Callable[[StateSpec], Any], steps: list[tuple[ZSet]]
) -> None:
    loop = spreading()
    check(arranged(EDGES, loop), steps, from_zero, open_spine=open_spine)


def test_a_cycle_does_not_keep_itself_alive() -> None:
    bench = Bench([feed(EDGES), closure()])
    bench.step([zset(EDGES, [((0, 1), 1), ((1, 2), 1), ((2, 1), 1)])])

    gone = bench.step([zset(EDGES, [((0, 1), -1)])])

    assert bag_of(gone) == {(0, 1): -1, (0, 2): -1}


def test_a_small_change_of_a_long_chain_is_a_small_change() -> None:
    bench = Bench([feed(EDGES), closure(limit=400)])
    bench.step([zset(EDGES, [((at, at + 1), 1) for at in range(60)])])

    change = bench.step([zset(EDGES, [((0, 1), -1)])])

    assert bag_of(change) == {(0, at): -1 for at in range(1, 61)}


def test_a_recursion_that_does_not_end_is_aborted() -> None:
    bench = Bench([feed(EDGES), closure(limit=5)])

    with pytest.raises(StepAborted, match=r"RECURSION_LEVEL_LIMIT_EXCEEDED.* after 5 iterations"):
        bench.step([zset(EDGES, [((at, at + 1), 1) for at in range(9)])])


def bag_of(change: ZSet) -> dict[Any, int]:
    rows = zip(*(column.to_pylist() for column in change.rows.columns), strict=True)
    return dict(zip(rows, change.weights.tolist(), strict=True))
