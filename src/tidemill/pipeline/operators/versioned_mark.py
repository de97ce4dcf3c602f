"""Semi, anti and outer joins inside a loop: a mark turns at the iterations at which its key comes or goes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import relabel, shaped
from tidemill.pipeline.plan.node import Mark
from tidemill.pipeline.state.run import expand
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import ZSet, concat, concat_rows, consolidate, group_rows, null_mask, pick
from tidemill.pipeline.zset.value import Indices, Mask, take_rows

_BITS = 32
"""So far numbers of keys are shifted to make room for an iteration."""


@dataclass(frozen=True, slots=True, eq=False)
class Turns:
    """When each key comes to the right, goes, comes again: its number and the iteration as one, ascending.

    A key starts as one that is not there, so an odd turn is that it comes.
    """

    code: Indices

    def before(self, key: Indices, iteration: Indices) -> Indices:
        """Where the first turn of each key after an iteration would be."""
        return np.searchsorted(self.code, (key << _BITS) | iteration, "right")

    def first(self, key: Indices) -> Indices:
        """Where the turns of each key begin."""
        return np.searchsorted(self.code, key << _BITS)


class VersionedMark(Operator):
    """Keeps the keys of the right by iteration; the left's rows are in the spine of its arrangement."""

    node: Mark
    cost = "O(rows of the touched keys)"

    def __init__(self, node: Mark, left: pa.Schema, right: pa.Schema, key: tuple[int, ...]) -> None:
        super().__init__(node, ())
        self.left, self.right, self.key = left, right, key
        self.schema = pa.schema([*node.schema, left.field(len(left) - 1)])

    def states(self) -> tuple[StateSpec, ...]:
        return (StateSpec("", self.right, tuple(range(len(self.right) - 1))),)

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        (left,), (right,) = inputs
        left, right = relabel(left, self.left), relabel(right, self.right)
        alone = self._never_found(left.rows, self.key)
        right = right.filter(~self._never_found(right.rows, range(len(self.right) - 1)))
        parts = [self._marked(left.filter(alone), np.zeros(int(alone.sum()), np.bool_))]
        keys, hashes = self._keys(left.filter(~alone), right)
        if keys.num_rows:
            parts.append(self._rows(access, keys, hashes, before=True).negate())
            if len(right):
                access.own().add(right)
            parts.append(self._rows(access, keys, hashes, before=False))
        return (consolidate(concat(parts, self.schema)),)

    def _never_found(self, rows: pa.RecordBatch, key: Sequence[int]) -> Mask:
        """Which rows have a key that equals none."""
        return np.zeros(rows.num_rows, np.bool_) if self.node.null_safe else null_mask(rows, key)

    def _keys(self, left: ZSet, right: ZSet) -> tuple[pa.RecordBatch, Any]:
        """The keys of both changes, each once."""
        schema = pa.schema(list(self.right)[:-1])
        mine = shaped(pick(left.rows, self.key).columns, schema, len(left))
        every = concat_rows([mine, pick(right.rows, range(len(schema)))])
        groups = group_rows(every)
        return take_rows(every, groups.first), groups.hashes

    def _rows(self, access: Access, keys: pa.RecordBatch, hashes: Any, *, before: bool) -> ZSet:
        """The left's rows of these keys with their marks, at the iterations at which they change."""
        found = access.of(0).lookup(keys, hashes, before=before)
        turns = self._turns(access.own().lookup(keys, hashes, before=before))
        rows, iteration = found.found, found.found.rows.column(len(self.left) - 1).to_numpy()
        after, end = turns.before(found.probe, iteration), turns.first(found.probe + 1)
        odd = (after - turns.first(found.probe)) % 2 == 1
        some = np.flatnonzero(end > after)
        row, turn = expand(some, after[some], (end - after)[some])
        turned = rows.take(row)
        at = pa.array(turns.code[turn] & ((1 << _BITS) - 1))
        columns = [*turned.rows.columns[:-1], at]
        turned = turned.with_rows(shaped(columns, self.left, len(turned)))
        now = odd[row] ^ ((turn - after[row]) % 2 == 0)
        return concat(
            [self._marked(rows, odd), self._marked(turned, now), self._marked(turned.negate(), ~now)],
            self.schema,
        )

    def _turns(self, matches: Any) -> Turns:
        iteration = matches.found.rows.column(len(self.right) - 1).to_numpy()
        code, place = np.unique((matches.probe << _BITS) | iteration, return_inverse=True)
        added = np.zeros(len(code), np.int64)
        np.add.at(added, place, matches.found.weights)
        key = code >> _BITS
        total = np.cumsum(added)
        starts = np.flatnonzero(np.append(True, key[1:] != key[:-1])) if len(key) else key
        before = np.repeat((total - added)[starts], np.diff(np.append(starts, len(key))))
        there = total - before > 0
        earlier = np.append(False, there[:-1])
        earlier[starts] = False
        return Turns(code[there != earlier])

    def _marked(self, rows: ZSet, marks: Mask) -> ZSet:
        *columns, iteration = rows.rows.columns
        return rows.with_rows(shaped([*columns, pa.array(marks), iteration], self.schema, len(rows)))
