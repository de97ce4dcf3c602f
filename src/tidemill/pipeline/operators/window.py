"""Window functions: each row of a partition with values of the rows around it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.aggregates.measure import Touched
from tidemill.pipeline.operators.groupwise import GroupwiseOperator
from tidemill.pipeline.operators.operator import Access, Flow
from tidemill.pipeline.operators.rows import relabel, shaped
from tidemill.pipeline.operators.windows import Ordering, Partitions, compile_call, sort_rows
from tidemill.pipeline.operators.windows.reach import Marks, Reach, input_of, reach_of, zones_of
from tidemill.pipeline.plan.node import Node, Window
from tidemill.pipeline.state.order import Direction
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import ZSet, concat, consolidate, group_rows, hash_rows, pick
from tidemill.pipeline.zset.value import Indices, Mask, take_rows

_SMALL_ROWS = 512
"""Partitions up to this size are computed as a whole, which costs less than finding what a change reaches."""

_ROWS_PER_CHANGE = 128
"""And so are those that are no larger than this for each row that changes in them."""


class WindowOperator(GroupwiseOperator):
    """Keeps its input by partition and in order, and computes the partitions anew that a step touches.

    Where no frame goes to an end of its partition, of large ones only the rows near the change.
    """

    node: Window
    cost = "O(rows of the touched groups)"

    def __init__(self, node: Window, inputs: Sequence[Node]) -> None:
        super().__init__(node, inputs)
        fields = list(node.schema)[: len(node.schema) - len(node.functions)]
        self.schema = pa.schema(fields)
        ways = tuple(Direction(by.descending, by.nulls_last) for by in node.order)
        self.ordering = Ordering(tuple(by.column for by in node.order), ways)
        self.functions = [compile_call(call, self.schema, self.ordering) for call in node.functions]
        self.reach = reach_of(node.functions, self.ordering)

    def states(self) -> tuple[StateSpec, ...]:
        columns, directions = self.ordering.columns, self.ordering.directions
        return (StateSpec("", self.schema, self.node.keys, order=columns, directions=directions),)

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        ((change,),) = inputs
        change = consolidate(relabel(change, self.schema))
        large = self._in_large(change, access)
        flow = super().step([(change.filter(~large), change)], access)
        if self.reach is None or not large.any():
            return flow
        return (concat([flow[0], self._near(change.filter(large), self.reach, access)], self.node.schema),)

    def touched(self, inputs: Sequence[Flow]) -> Touched:
        ((change, _),) = inputs
        groups, _ = self._groups(change)
        return groups

    def keep(self, inputs: Sequence[Flow], access: Access) -> None:
        ((_, change),) = inputs
        if len(change):
            access.own().add(change)

    def rows(self, access: Access, groups: Touched, *, before: bool) -> ZSet:
        matches = access.own().lookup(groups.keys, groups.hashes, before=before)
        return self._computed(sort_rows(matches.found, matches.probe, self.ordering))

    def _in_large(self, change: ZSet, access: Access) -> Mask:
        """Which rows are of partitions of which only a part is to be computed.

        In a step of several rounds none: what was before all of them is known of whole partitions only.
        """
        if self.reach is None or access.fresh or not access.last_round or self.pending or not len(change):
            return np.zeros(len(change), np.bool_)
        groups, number = self._groups(change)
        small = np.maximum(_SMALL_ROWS, np.bincount(number) * _ROWS_PER_CHANGE)
        return np.asarray((access.own().weigh(groups.hashes) > small)[number])

    def _near(self, change: ZSet, reach: Reach, access: Access) -> ZSet:
        """How the rows change that these changes reach."""
        keys = pick(change.rows, self.node.keys)
        changed = Marks.of(Touched(keys, hash_rows(keys)), change.rows)
        zones = zones_of(access.own(), reach, changed, self.ordering)
        parts = []
        for before in (True, False):
            matches = input_of(access.own(), reach, zones, self.ordering, before=before)
            rows = sort_rows(matches.found, matches.probe, self.ordering)
            wanted = zones.holds(rows.owner, rows.rows, self.ordering)
            found = self._computed(replace(rows, wanted=wanted)).filter(wanted)
            parts.append(found.negate() if before else found)
        return consolidate(concat(parts, self.node.schema))

    def _computed(self, rows: Partitions) -> ZSet:
        values = [function(rows) for function in self.functions]
        return ZSet.of(shaped([*rows.rows.columns, *values], self.node.schema, len(rows)))

    def _groups(self, change: ZSet) -> tuple[Touched, Indices]:
        """The partitions of rows, each once, and for each row the number of its partition."""
        keys = pick(change.rows, self.node.keys)
        groups = group_rows(keys)
        return Touched(take_rows(keys, groups.first), groups.hashes), groups.number()
