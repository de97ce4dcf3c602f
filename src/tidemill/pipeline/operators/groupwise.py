"""Operators whose output is a function of each group of their state."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidemill.pipeline.operators.aggregates.measure import Touched
from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import settled
from tidemill.pipeline.plan.node import Node
from tidemill.pipeline.zset import ZSet, concat, concat_rows, group_rows


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """The groups touched by the rounds of a step so far, and the rows they had before the step.

    `spine` tells one run of a step from another: rounds of one that was given up are not continued.
    """

    spine: Any
    groups: Touched
    old: ZSet


class GroupwiseOperator(Operator):
    """Puts out how the rows of the groups changed that a step touches.

    While the step has more rounds to come it puts out nothing: rows that only a part of the step would have
    could make those raise who come next.
    """

    def __init__(self, node: Node, inputs: Sequence[Node]) -> None:
        super().__init__(node, inputs)
        self.nothing = ZSet.empty(node.schema)
        self._pending: Pending | None = None

    @property
    def pending(self) -> bool:
        """Whether an earlier round of this step, or of one that was given up, waits for the last."""
        return self._pending is not None

    @abstractmethod
    def touched(self, inputs: Sequence[Flow]) -> Touched:
        """The groups that a change touches, each once."""

    @abstractmethod
    def keep(self, inputs: Sequence[Flow], access: Access) -> None:
        """Add the change to the state."""

    @abstractmethod
    def rows(self, access: Access, groups: Touched, *, before: bool) -> ZSet:
        """The rows that the output has for these groups; with `before`, had before this round."""

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        groups = self.touched(inputs)
        pending = self._extended(groups, access)
        self.keep(inputs, access)
        if not access.last_round:
            self._pending = pending
            return (self.nothing,)
        if not len(pending.groups):
            return (self.nothing,)
        new = self.rows(access, pending.groups, before=False)
        return (settled(concat([pending.old.negate(), new], self.node.schema)),)

    def _extended(self, groups: Touched, access: Access) -> Pending:
        """With groups that no earlier round touched: as they are before this one, they were before all."""
        known, self._pending = self._pending, None
        if known is not None and known.spine is not access.own():
            known = None
        added = groups if known is None else without(groups, known.groups)
        old = self.nothing
        if len(added) and not access.fresh:
            old = self.rows(access, added, before=True)
        if known is None:
            return Pending(access.own(), added, old)
        return Pending(known.spine, together(known.groups, added), concat([known.old, old], old.schema))


def together(some: Touched, more: Touched) -> Touched:
    """The groups of both, which have none in common."""
    return Touched(concat_rows([some.keys, more.keys]), np.concatenate([some.hashes, more.hashes]))


def without(groups: Touched, known: Touched) -> Touched:
    """Those groups that are not known."""
    both = together(known, groups)
    first = group_rows(both.keys, None, both.hashes).first
    return groups.take(first[first >= len(known)] - len(known))
