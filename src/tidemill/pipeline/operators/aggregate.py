"""GROUP BY: one row per group, with the values of aggregate functions. In two halves, around an exchange.

`Combine` adds up what a change brings to each group, so that less travels; `Aggregate` adds that to what it
keeps of the groups and puts out how their rows changed. What the functions need is known to `aggregates`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.pipeline import types
from tidemill.pipeline.operators.aggregates import Layout
from tidemill.pipeline.operators.aggregates.measure import Touched
from tidemill.pipeline.operators.groupwise import together, without
from tidemill.pipeline.operators.matching import weights_found
from tidemill.pipeline.operators.operator import Access, Flow, Operator, Port
from tidemill.pipeline.operators.rows import relabel, shaped
from tidemill.pipeline.plan.node import Aggregate, Combine, Node
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import ZSet, add_checked, concat, concat_rows, equal_rows, group_rows
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
    late: dict[int, list[ZSet]] = field(default_factory=dict)
    """What folded details, by their slot, have yet to take away."""


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
        ((totals, *details),) = inputs
        pending, self._pending = self._pending, None
        if pending is None and not len(totals):
            return (self.nothing,)
        if pending is not None and pending.spine is not access.own():
            pending = None
        touched, change = _by_group(totals)
        if pending is None:
            counters = self._counters(access, touched, before=True)
            pending = Pending(access.own(), touched, self._results(access, touched, counters, before=True))
            counters = add_checked(counters, change.weights)
        else:
            pending = self._extended(pending, without(touched, pending.groups), access)
            counters = None
        self._keep(access, [change, *details], pending.late)
        if not access.last_round:
            self._pending = pending
            return (self.nothing,)
        if counters is None:
            counters = self._counters(access, pending.groups, before=False)
        new = self._results(access, pending.groups, counters, before=False)
        return (self._difference(pending.old, new, len(pending.groups)),)

    def _keep(self, access: Access, parts: Sequence[ZSet], late: dict[int, list[ZSet]]) -> None:
        """Add the change to the states."""
        for slot, change in enumerate(parts):
            part, detail = change, self.layout.folded.get(slot)
            if detail is not None:
                waiting = late.setdefault(slot, [])
                waiting.append(part.filter(part.weights < 0))
                added = part.filter(part.weights > 0)
                part = concat([added, *waiting] if access.last_round else [added], part.schema)
                part = detail.fold(part, access.own(slot)) if len(part) else part
            if len(part):
                access.own(slot).add(part)

    def _counters(self, access: Access, groups: Touched, *, before: bool) -> Weights:
        """The counters of these groups, zero for one that is not there."""
        matches = access.own().lookup(groups.keys, groups.hashes, before=before)
        return weights_found(matches, len(groups))

    def _results(self, access: Access, groups: Touched, counters: Weights, *, before: bool) -> Results:
        """The rows of these groups, which have these counters."""
        if self.node.keys or not self.layout.of_nothing:
            place = np.flatnonzero(counters[:, 0] > 0)
        else:  # the one group always has a row, but for the time before the first step
            place = np.arange(0 if before and access.fresh else len(groups))
        if len(place) < len(groups):
            groups, counters = groups.take(place), counters[place]
        values = self.layout.values(access, groups, counters, before=before)
        return Results(place, shaped([*groups.keys.columns, *values], self.node.schema, len(groups)))

    def _extended(self, pending: Pending, added: Touched, access: Access) -> Pending:
        """With groups that no earlier round touched: as they are before this one, they were before all."""
        known = pending.groups
        old = self._results(access, added, self._counters(access, added, before=True), before=True)
        place = np.concatenate([pending.old.place, old.place + len(known)])
        rows = concat_rows([pending.old.rows, old.rows])
        return Pending(pending.spine, together(known, added), Results(place, rows), pending.late)

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


def _by_group(totals: ZSet) -> tuple[Touched, ZSet]:
    """The groups, each once, and what is added to their counters."""
    groups = group_rows(totals.rows)
    keys = take_rows(totals.rows, groups.first)
    return Touched(keys, groups.hashes), ZSet(keys, groups.sum(totals.weights))


def _mask(place: Indices, count: int) -> npt.NDArray[np.bool_]:
    mask = np.zeros(count, np.bool_)
    mask[place] = True
    return mask
