"""The law of every operator: the sum of what it puts out is the query's answer on the sum of what went in."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from tidemill.pipeline.plan.node import Node
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.testing.bags import Bag, Rows, bag, rows_of
from tidemill.pipeline.testing.bench import Bench
from tidemill.pipeline.testing.spine import ModelSpine
from tidemill.pipeline.zset import ZSet, concat

Step = Sequence[ZSet]
"""A change for each input."""


def check(
    nodes: Sequence[Node],
    steps: Sequence[Step],
    model: Callable[..., Bag],
    *,
    late: int = 1,
    open_spine: Callable[[StateSpec], Any] = ModelSpine,
) -> None:
    """Assert that the nodes put out what `model` says, however the changes come.

    That is: after each of many small steps; after one big step; after one step of many rounds; and when the
    last `late` nodes are created only after the first steps (0: not tried; their inputs need a state).
    `model` takes, for each input, all rows so far in their order, and gives the output's rows.
    """
    expected = [model(*history) for history in _histories(steps)]
    bench = Bench(nodes, open_spine)
    small = [bench.step(step) for step in steps]
    assert all(output.schema == nodes[-1].schema for output in small)
    assert _sums(small) == expected, "after each small step"
    if not steps:
        return
    big = [concat(parts, parts[0].schema) for parts in zip(*steps, strict=True)]
    assert _sums([Bench(nodes, open_spine).step(big)]) == expected[-1:], "after one big step"
    assert _sums([Bench(nodes, open_spine).step(*steps)]) == expected[-1:], "after one step of many rounds"
    if late:
        _check_late(nodes, steps, expected, late, open_spine)


def _check_late(
    nodes: Sequence[Node],
    steps: Sequence[Step],
    expected: Sequence[Bag],
    late: int,
    open_spine: Callable[[StateSpec], Any],
) -> None:
    middle = len(steps) // 2
    bench = Bench(nodes[:-late], open_spine)
    for step in steps[:middle]:
        bench.step(step)
    for node in nodes[-late:]:
        bench.add(node)
    outputs = [bench.step(step) for step in steps[middle:]]
    assert _sums(outputs) == list(expected[middle:]), "when created late"


def _histories(steps: Sequence[Step]) -> list[list[Rows]]:
    """For each step what every input brought until then."""
    brought = [[rows_of(change) for change in step] for step in steps]
    return list(accumulate(brought, lambda before, now: [a + b for a, b in zip(before, now, strict=True)]))


def _sums(outputs: Sequence[ZSet]) -> list[Bag]:
    return [bag(rows) for rows in accumulate(map(rows_of, outputs))]
