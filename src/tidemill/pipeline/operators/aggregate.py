"""GROUP BY: one row per group, with the values of aggregate functions. In two halves, around an exchange.

`Combine` adds up what a change brings to each group, so that less travels; `Aggregate` adds that to what it
keeps of the groups and puts out how their rows changed. What the functions need is known to `aggregates`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.pipeline import types
from tidemill.pipeline.operators.aggregates import Layout
from tidemill.pipeline.operators.aggregates.measure import Touched, stretches
from tidemill.pipeline.operators.operator import Access, Flow, Operator, Port
from tidemill.pipeline.operators.rows import relabel, shaped
from tidemill.pipeline.plan.node import Aggregate, Combine, Node
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import ZSet, concat, concat_rows, equal_rows, group_rows, sum_groups
from tidemill.pipeline.zset.value import Indices, Weights, take_rows


class CombineOperator(Operator):
    """Adds up a change by groups. Keeps nothing."""

    node: Combine
    cost = "O(change)"

    def __init__(self, node: Combine, inputs: Sequence[Node]) -> None:
        super().__init__(node, inputs)
        self.layout = Layout(node.schema, node.keys, node.functions)

    def ports(self) -> tuple[Port, ...]:
        return self.layout.ports

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:  # noqa: ARG002
        ((change,),) = inputs
        return self.layout.combine(relabel(change, self.node.schema))


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """The rows of those groups that have one; `place` says which of the groups, ascending."""

    place: Indices
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """The groups touched by the rounds of a step so far, and the rows they had before the step.

    `spine` tells one run of a step from another: rounds of one that was given up are not continued.
    """

    spine: Any
    groups: Touched
    old: Results


class AggregateOperator(Operator):
    """Keeps the counters and details of all groups, and puts out how the rows of the touched ones changed.

    While a step has more rounds to come it puts out nothing.
    """

    node: Aggregate
    cost = "O(change · log state)"

    def __init__(self, node: Aggregate, inputs: Sequence[Node]) -> None:
        super().__init__(node, inputs)
        self.layout = Layout(types.schema_from_spark(node.input_schema), node.keys, node.functions)
        self.nothing = ZSet.empty(node.schema)
        self._pending: Pending | None = None

    def states(self) -> tuple[StateSpec, ...]:
        return self.layout.states

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        (ports,) = inputs
        pending = self._pending
        self._pending = None
        if pending is None and not len(ports[0]):
            return (self.nothing,)
        spine = access.own()
        touched = _groups_of(ports[0].rows)
        if pending is None or pending.spine is not spine:
            pending = Pending(spine, touched, self._results(access, touched, before=True))
        else:
            added = _without(touched, pending.groups)
            pending = _extended(pending, added, self._results(access, added, before=True))
        for slot, change in enumerate(ports):
            if len(change):
                access.own(slot).add(change)
        if not access.last_round:
            self._pending = pending
            return (self.nothing,)
        return (
            self._difference(
                pending.old, self._results(access, pending.groups, before=False), len(pending.groups)
            ),
        )

    def _results(self, access: Access, groups: Touched, *, before: bool) -> Results:
        """The rows of these groups without this round's change, or with it."""
        matches = access.own().lookup(groups.keys, groups.hashes, before=before)
        totals = _add_up(matches.probe, matches.found.weights, len(groups))
        if self.node.keys:
            place = np.flatnonzero(totals[:, 0] > 0)
        else:  # the one group always has a row, but for the time before the first step
            place = np.arange(0 if before and access.fresh else len(groups))
        if len(place) < len(groups):
            groups = Touched(take_rows(groups.keys, place), groups.hashes[place])
            totals = totals[place]
        columns = groups.keys.columns + self.layout.values(access, groups, totals, before=before)
        return Results(place, shaped(columns, self.node.schema, len(groups)))

    def _difference(self, old: Results, new: Results, count: int) -> ZSet:
        """The old rows out and the new rows in, where they are not the same."""
        both = _mask(old.place, count) & _mask(new.place, count)
        values = range(len(self.node.keys), len(self.node.schema))
        same = equal_rows(
            take_rows(old.rows, np.flatnonzero(both[old.place])),
            take_rows(new.rows, np.flatnonzero(both[new.place])),
            values,
            values,
        )
        changed = ~_mask(np.flatnonzero(both)[same], count)
        parts = [
            ZSet.of(old.rows, -1).filter(changed[old.place]),
            ZSet.of(new.rows).filter(changed[new.place]),
        ]
        return concat(parts, self.node.schema)


def _groups_of(keys: pa.RecordBatch) -> Touched:
    groups = group_rows(keys)
    return Touched(take_rows(keys, groups.first), groups.hashes)


def _without(groups: Touched, known: Touched) -> Touched:
    """Those groups that are not known."""
    together = group_rows(
        concat_rows([known.keys, groups.keys]), None, np.concatenate([known.hashes, groups.hashes])
    )
    new = np.sort(together.first[together.first >= len(known)]) - len(known)
    return Touched(take_rows(groups.keys, new), groups.hashes[new])


def _extended(pending: Pending, added: Touched, old: Results) -> Pending:
    known = pending.groups
    groups = Touched(concat_rows([known.keys, added.keys]), np.concatenate([known.hashes, added.hashes]))
    place = np.concatenate([pending.old.place, old.place + len(known)])
    return Pending(pending.spine, groups, Results(place, concat_rows([pending.old.rows, old.rows])))


def _add_up(probe: Indices, weights: Weights, count: int) -> Weights:
    """For each of `count` keys the sum of the weights found for it."""
    totals = np.zeros((count, weights.shape[1]), np.int64)
    order = np.argsort(probe, kind="stable")
    starts = stretches(probe[order])
    totals[probe[order[starts]]] = sum_groups(weights[order], starts)
    return totals


def _mask(place: Indices, count: int) -> npt.NDArray[np.bool_]:
    mask = np.zeros(count, np.bool_)
    mask[place] = True
    return mask
