"""A few nodes of a circuit at work, without files, exchange and Spark."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidemill.pipeline import types
from tidemill.pipeline.operators.operator import Access, Flow, Moment, Operator
from tidemill.pipeline.operators.registry import build
from tidemill.pipeline.plan.node import Constant, Exchange, Join, Mark, Node
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.testing.spine import ModelSpine
from tidemill.pipeline.zset import ZSet, concat


class Feed(Node, frozen=True, tag="feed"):
    """An input: passes on what the test gives it."""


def feed(schema: pa.Schema) -> Feed:
    return Feed((), spark(schema))


def spark(schema: pa.Schema) -> Any:
    """The schema as a node takes it."""
    return types.schema_to_spark(schema)


class Bench:
    """Runs nodes as a pipeline worker does that owns all shards. The output is that of the last node.

    A node that was added after a step is *fresh* in the next: what older nodes have by then comes to it from
    their states, in rounds after those of the step.
    """

    def __init__(self, nodes: Sequence[Node], open_spine: Callable[[StateSpec], Any] = ModelSpine) -> None:
        self.nodes: list[Node] = []
        self.operators: list[Operator | None] = []
        self.spines: list[list[Any]] = []
        self._open_spine = open_spine
        self._fresh: set[int] = set()
        self._steps = 0
        for node in nodes:
            self.add(node)

    def add(self, node: Node) -> None:
        """Append a node to the circuit."""
        operator = None
        if not isinstance(node, Feed | Exchange):
            operator = build(node, [self.nodes[index] for index in node.inputs])
        self._fresh.add(len(self.nodes))
        self.nodes.append(node)
        self.operators.append(operator)
        self.spines.append([self._open_spine(spec) for spec in operator.states()] if operator else [])

    def step(self, *rounds: Sequence[ZSet]) -> ZSet:
        """What the last node puts out. A round is a change for each feed or source, in order."""
        heads = [
            position
            for position, node in enumerate(self.nodes)
            if not node.inputs and not isinstance(node, Constant)
        ]
        older = {index for position in self._fresh for index in self.nodes[position].inputs} - self._fresh
        outputs = []
        for number, changes in enumerate(rounds, 1):
            fed = dict(zip(heads, changes, strict=True))
            outputs.append(self._round(fed, {}, last=number == len(rounds) and not older))
        if older:
            pieces = [(index, piece) for index in sorted(older) for piece in self.spines[index][0].scan()]
            outputs += [self._round({}, {index: piece}, last=False) for index, piece in pieces]
            outputs.append(self._round({}, {}, last=True))
        self._fresh.clear()
        self._steps += 1
        return concat(outputs, self.nodes[-1].schema)

    def _round(self, fed: Mapping[int, ZSet], filling: Mapping[int, ZSet], *, last: bool) -> ZSet:
        for spines in self.spines:
            for spine in spines:
                spine.next_round()
        flows: list[Flow] = []
        for position, operator in enumerate(self.operators):
            node = self.nodes[position]
            inputs = [self._input(position, at, flows, filling) for at in range(len(node.inputs))]
            if not inputs:
                inputs = [(fed.get(position) or ZSet.empty(node.schema),)]
            flows.append(
                inputs[0] if operator is None else operator.step(inputs, self._access(position, last))
            )
        return flows[-1][0]

    def _input(self, position: int, at: int, flows: Sequence[Flow], filling: Mapping[int, ZSet]) -> Flow:
        """The change of an input; all of its rows, if it is older than a fresh node."""
        node, fresh = self.nodes[position], position in self._fresh
        producer = node.inputs[at]
        if not fresh or producer in self._fresh:
            return flows[producer]
        if isinstance(node, Mark) and at == 0:
            return (ZSet.empty(self.nodes[producer].schema),)
        if isinstance(node, Join):
            if self._fresh.intersection(node.inputs):
                return flows[producer]  # what it has is in its spine, to meet the rows of the other side
            if at == 1:
                return (ZSet.empty(self.nodes[producer].schema),)
        return (filling.get(producer) or ZSet.empty(self.nodes[producer].schema),)

    def _access(self, position: int, last: bool) -> Access:
        return Access(
            spines=self.spines[position],
            input_spines=[(self.spines[index] or [None])[0] for index in self.nodes[position].inputs],
            fresh=position in self._fresh,
            last_round=last,
            moment=Moment(self._steps, float(self._steps), float(self._steps - 1)),
        )
