"""The first rows of each group in some order: what LIMIT keeps, or a filter on a number in that order."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.aggregates.measure import Touched, stretches
from tidemill.pipeline.operators.groupwise import GroupwiseOperator
from tidemill.pipeline.operators.operator import Access, Flow
from tidemill.pipeline.operators.rows import relabel
from tidemill.pipeline.plan.node import Node, TopK
from tidemill.pipeline.state.order import Direction, comes_before, dense_ranks, order_codes
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.state.spine import Matches
from tidemill.pipeline.zset import ZSet, concat, consolidate, group_rows, hash_rows, pick
from tidemill.pipeline.zset.value import Indices, Mask, take_rows

_ROWS, _BOUNDS = 0, 1


class TopKOperator(GroupwiseOperator):
    """Keeps all rows in order, and of each group that is full the last row that is still in.

    So most changes are found to lie beyond it, and cost no more than being kept.
    """

    node: TopK
    cost = "O(change · log state)"

    def __init__(self, node: TopK, inputs: Sequence[Node]) -> None:
        super().__init__(node, inputs)
        self.order = tuple(by.column for by in node.order)
        self.directions = tuple(Direction(by.descending, by.nulls_last) for by in node.order)
        self.exact = node.ranking == "row_number"  # equals are told apart, by their hash

    def states(self) -> tuple[StateSpec, ...]:
        schema, keys = self.node.schema, self.node.keys
        rows = StateSpec("", schema, keys, order=self.order, directions=self.directions)
        return rows, StateSpec("1", schema, keys)

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        ((change,),) = inputs
        change = consolidate(relabel(change, self.node.schema))
        within = change if access.fresh else change.filter(self._within(change, access))
        return super().step([(within, change)], access)

    def touched(self, inputs: Sequence[Flow]) -> Touched:
        ((within, _),) = inputs
        return self._groups(within.rows)[0]

    def keep(self, inputs: Sequence[Flow], access: Access) -> None:
        ((_, change),) = inputs
        if len(change):
            access.own(_ROWS).add(change)

    def rows(self, access: Access, groups: Touched, *, before: bool) -> ZSet:
        matches = access.own(_ROWS).extreme(
            groups.keys,
            groups.hashes,
            last=False,
            count=self.node.count,
            ranking=self.node.ranking,
            before=before,
        )
        order = np.argsort(matches.probe, kind="stable")
        found = Matches(matches.probe[order], matches.found.take(order))
        if not before:  # the end of a step: this is what the next one finds
            self._keep_bounds(access, groups, found)
        if not self.exact:
            return found.found
        _, begins, ends = self._copies(found)
        kept = np.minimum(ends, self.node.count) - np.maximum(begins, self.node.offset)
        return ZSet(found.found.rows, kept).filter(kept > 0)

    def _within(self, change: ZSet, access: Access) -> Mask:
        """Which rows of a change may make a difference: those not beyond the bound of their group."""
        within = np.ones(len(change), np.bool_)
        if not len(change):
            return within
        groups, number = self._groups(change.rows)
        bounds = access.own(_BOUNDS).extreme(groups.keys, groups.hashes, last=False)
        place = np.full(len(groups), -1)
        place[bounds.probe] = np.arange(len(bounds.probe))
        bounded = np.flatnonzero(place[number] >= 0)
        mine = take_rows(change.rows, bounded)
        last = take_rows(bounds.found.rows, place[number[bounded]])
        equal = hash_rows(last) < hash_rows(mine) if self.exact else np.zeros(len(bounded), np.bool_)
        columns = [pick(rows, self.order) for rows in (last, mine)]
        within[bounded] = ~comes_before(columns[0], columns[1], self.directions, or_equal=equal)
        return within

    def _keep_bounds(self, access: Access, groups: Touched, found: Matches) -> None:
        """Replace the bounds of these groups: by the last row found, where there can be no more."""
        firsts, _, ends = self._copies(found)
        lasts = np.append(firsts[1:], len(ends)) - 1 if len(firsts) else firsts
        if self.node.ranking == "dense_rank":
            codes = order_codes(found.found.rows, self.order, self.directions)
            value = dense_ranks([found.probe, *codes], len(ends))
            reached = value[lasts] - value[firsts] + 1
        else:
            reached = ends[lasts]
        new = ZSet.of(take_rows(found.found.rows, lasts[reached >= self.node.count]))
        old = access.own(_BOUNDS).lookup(groups.keys, groups.hashes).found
        change = consolidate(concat([old.negate(), new], self.node.schema))
        if len(change):
            access.own(_BOUNDS).add(change)

    def _copies(self, found: Matches) -> tuple[Indices, Indices, Indices]:
        """Where each group's rows start, and how many copies come before each row, and up to its last."""
        firsts = stretches(found.probe)
        copies = np.minimum(found.found.weights, self.node.count)  # so that no sum is too large
        ends = np.cumsum(copies)
        sizes = np.diff(np.append(firsts, len(ends)))
        ends -= np.repeat(np.append(0, ends)[firsts], sizes)
        return firsts, ends - copies, ends

    def _groups(self, rows: pa.RecordBatch) -> tuple[Touched, Indices]:
        """The groups of rows, each once, and for each row the number of its group."""
        keys = pick(rows, self.node.keys)
        groups = group_rows(keys)
        return Touched(take_rows(keys, groups.first), groups.hashes), groups.number()
