"""Recursion: the fixed point of a body, kept under insertions and deletions.

The body's relation R starts empty and is computed from itself until nothing changes any more: R(i+1) is the
body over R(i). Every row inside carries the iteration in which it comes in or goes out, as its last column,
so that R(i) is the sum of the rows up to i, and what a step changes is changed at the iterations concerned
and nowhere else. That is what keeps deletions right on cycles: a row that supports itself has no first
iteration.

Linear operators keep the column; a pair of a join is there from the later of its two rows on; a group of a
`Versioned` operator is looked at once for every iteration at which it changes.

All of a loop lies with one pipeline worker, the owner of its home shard.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline import types
from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.operators.arrange import ArrangeOperator, arranged_by
from tidemill.pipeline.operators.join import JoinOperator
from tidemill.pipeline.operators.negate import NegateOperator
from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import relabel, shaped
from tidemill.pipeline.operators.select import SelectOperator
from tidemill.pipeline.operators.union import UnionOperator
from tidemill.pipeline.operators.versioned import Versioned
from tidemill.pipeline.operators.versioned_mark import VersionedMark
from tidemill.pipeline.plan import node as nodes
from tidemill.pipeline.plan.expression import column, columns_of, shift
from tidemill.pipeline.plan.node import AnyNode, Loop, Node
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import ZSet, concat, consolidate, hash_rows, shard_of
from tidemill.pipeline.zset.value import batch, empty_rows, pick

ITERATION = pa.field("_iteration", pa.int64(), nullable=False)
HOME = int(shard_of(hash_rows(empty_rows(pa.schema([]), 1)))[0])
"""The shard of the empty key, by which the inputs of a loop are spread."""

_LINEAR: dict[type[Node], type[Operator]] = {
    nodes.Select: SelectOperator,
    nodes.Union: UnionOperator,
    nodes.Negate: NegateOperator,
    nodes.Arrange: ArrangeOperator,
}
INNER: tuple[type[Node], ...] = (
    nodes.LoopInput,
    nodes.LoopVariable,
    nodes.Join,
    nodes.Distinct,
    nodes.Combine,
    nodes.Aggregate,
    nodes.Mark,
    *_LINEAR,
)
"""The nodes that the body of a loop may have."""


class LoopOperator(Operator):
    """Puts out how the fixed point changed, at the end of the step.

    Raises `StepAborted` if there is none within so many iterations as the node allows.
    """

    node: Loop
    cost = "O(changed derivations · log state)"

    def __init__(self, node: Loop, inputs: Sequence[Node]) -> None:
        super().__init__(node, inputs)
        self.parts = [_part(inner, node.body) for inner in node.body]
        self._first = list(np.cumsum([0, *(len(part.states()) for part in self.parts)]))
        self._pending: tuple[object, list[ZSet]] | None = None

    def states(self) -> tuple[StateSpec, ...]:
        return tuple(
            replace(spec, name=f"{position}{spec.name and '.'}{spec.name}", aligned=False, home=HOME)
            for position, part in enumerate(self.parts)
            for spec in part.states()
        )

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        pending, self._pending = self._pending, None
        # A loop without state has no spine to tell a step by, and its body nothing that could take rows back.
        mark = access.own() if self._first[-1] else None
        changes = pending[1] if pending and pending[0] is mark else []
        if any(len(change) for (change,) in inputs):
            changes.extend(self._run([change for (change,) in inputs], access))
        if access.last_round or mark is None:
            return (consolidate(concat(changes, self.node.schema)),)
        self._pending = (mark, changes)
        return (ZSet.empty(self.node.schema),)

    def _run(self, inputs: Sequence[ZSet], access: Access) -> Iterator[ZSet]:
        """The change of the result at each iteration."""
        agenda = Agenda(len(self.parts))
        variables = [at for at, inner in enumerate(self.node.body) if isinstance(inner, nodes.LoopVariable)]
        for position, inner in enumerate(self.node.body):
            if isinstance(inner, nodes.LoopInput):
                agenda.put(position, at_iteration(relabel(inputs[inner.number], inner.schema), 0))
        while (iteration := agenda.next()) is not None:
            if iteration > self.node.limit:
                raise StepAborted(
                    "[RECURSION_LEVEL_LIMIT_EXCEEDED] the recursion has not come to an end after "
                    f"{self.node.limit} iterations; MAX RECURSION LEVEL allows more"
                )
            self._iterate(iteration, agenda, access)
            found = agenda.take(len(self.parts) - 1, iteration)
            agenda.done(iteration)
            if found is not None and len(found):
                rows = found.with_rows(pick(found.rows, range(len(self.node.schema))))
                yield relabel(rows, self.node.schema)
                for position in variables:
                    change = relabel(rows, self.node.body[position].schema)
                    agenda.put(position, at_iteration(change, iteration + 1))

    def _iterate(self, iteration: int, agenda: "Agenda", access: Access) -> None:
        """Run those parts of the body that have something to do in this iteration, each after its inputs."""
        for slot in range(self._first[-1]):
            access.own(slot).next_round()
        for position, part in enumerate(self.parts):
            inputs = [agenda.take(index, iteration) for index in self.node.body[position].inputs]
            if any(change is not None and len(change) for change in inputs):
                flows = [
                    (change or ZSet.empty(self.parts[index].schema),)
                    for change, index in zip(inputs, self.node.body[position].inputs, strict=True)
                ]
                agenda.put(position, part.step(flows, self._access(position, access)))

    def _access(self, position: int, access: Access) -> Access:
        spines = [access.own(slot) for slot in range(self._first[position], self._first[position + 1])]
        inputs = [
            access.own(self._first[index]) if self.parts[index].states() else None
            for index in self.node.body[position].inputs
        ]
        return replace(access, spines=spines, input_spines=inputs, fresh=False, last_round=True)


class Agenda:
    """What each part of the body put out, by the iteration to which it belongs."""

    def __init__(self, parts: int) -> None:
        self._waiting: list[dict[int, list[ZSet]]] = [{} for _ in range(parts)]

    def put(self, position: int, change: ZSet) -> None:
        """Add rows, whose last column is their iteration."""
        if not len(change):
            return
        iterations = change.rows.column(change.rows.num_columns - 1).to_numpy()
        for iteration in np.unique(iterations).tolist():
            part = change.filter(iterations == iteration)
            self._waiting[position].setdefault(iteration, []).append(part)

    def take(self, position: int, iteration: int) -> ZSet | None:
        """What a part put out for an iteration, without what cancels out; None if there is nothing."""
        parts = self._waiting[position].get(iteration)
        if parts is None:
            return None
        found = consolidate(concat(parts, parts[0].schema))
        self._waiting[position][iteration] = [found]
        return found

    def next(self) -> int | None:
        """The first iteration that something waits for."""
        return min((min(waiting) for waiting in self._waiting if waiting), default=None)

    def done(self, iteration: int) -> None:
        for waiting in self._waiting:
            waiting.pop(iteration, None)


class Part:
    """A node of the body over rows that carry their iteration."""

    def __init__(self, schema: pa.Schema, operator: Operator | None) -> None:
        self.schema = schema
        self.operator = operator

    def states(self) -> tuple[StateSpec, ...]:
        return self.operator.states() if self.operator else ()

    def step(self, inputs: Sequence[Flow], access: Access) -> ZSet:
        if self.operator is None:  # it passes on what is put there
            return inputs[0][0]
        (found,) = self.operator.step(inputs, access)
        return found


class JoinPart(Part):
    """A join: its pairs come with the iterations of both rows, of which the later counts."""

    def __init__(self, inner: nodes.Join, body: Sequence[AnyNode]) -> None:
        left, right = (body[index] for index in inner.inputs)
        self._width = len(left.schema)
        sides = [iterated(side, body) for side in (left, right)]
        schema = pa.schema([*sides[0].schema, *sides[1].schema])
        condition = inner.condition
        if condition is not None:
            places = {at: at + (at >= self._width) for at in columns_of(condition)}
            condition = shift(condition, places)
        joined = nodes.Join(inner.inputs, types.schema_to_spark(schema), condition)
        super().__init__(_with_iteration(inner.schema), JoinOperator(joined, sides))

    def step(self, inputs: Sequence[Flow], access: Access) -> ZSet:
        pairs = super().step(inputs, access)
        columns = pairs.rows.columns
        later = pc.max_element_wise(columns[self._width], columns[-1])
        kept = [*columns[: self._width], *columns[self._width + 1 : -1], later]
        return pairs.with_rows(shaped(kept, self.schema, len(pairs)))


class MarkPart(Part):
    """A mark, which turns at iterations."""

    def __init__(self, inner: nodes.Mark, body: Sequence[AnyNode]) -> None:
        left, right = (body[index] for index in inner.inputs)
        sides = _with_iteration(left.schema), _with_iteration(right.schema)
        super().__init__(_with_iteration(inner.schema), VersionedMark(inner, *sides, arranged_by(left)))


class VersionedPart(Part):
    """A node that is not linear: by group, for every iteration at which the group changes."""

    def __init__(self, inner: nodes.Distinct | nodes.Aggregate, source: pa.Schema) -> None:
        super().__init__(_with_iteration(inner.schema), Versioned(inner, source))


def _part(inner: AnyNode, body: Sequence[AnyNode]) -> Part:
    """What runs a node of the body. A `Combine` passes its input on: the `Aggregate` does it all."""
    match inner:
        case nodes.LoopInput() | nodes.LoopVariable() | nodes.Combine():
            return Part(_with_iteration(inner.schema), None)
        case nodes.Join():
            return JoinPart(inner, body)
        case nodes.Mark():
            return MarkPart(inner, body)
        case nodes.Distinct() | nodes.Aggregate():
            return VersionedPart(inner, body[inner.inputs[0]].schema)
    changed = iterated(inner, body)
    operator = _LINEAR[type(inner)](changed, [iterated(body[index], body) for index in inner.inputs])
    return Part(changed.schema, operator)


def iterated(inner: AnyNode, body: Sequence[AnyNode]) -> AnyNode:
    """The same node over rows that carry their iteration."""
    schema = types.schema_to_spark(_with_iteration(inner.schema))
    if isinstance(inner, nodes.Select):
        last = column(len(body[inner.inputs[0]].schema), ITERATION.type)
        return msgspec.structs.replace(inner, spark_schema=schema, columns=(*inner.columns, last))
    return msgspec.structs.replace(inner, spark_schema=schema)


def _with_iteration(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*schema, ITERATION])


def at_iteration(change: ZSet, iteration: int) -> ZSet:
    """The rows with that iteration as their last column."""
    last = pa.array(np.full(len(change), iteration, np.int64))
    schema = _with_iteration(change.schema)
    return change.with_rows(batch([*change.rows.columns, last], schema, len(change)))
