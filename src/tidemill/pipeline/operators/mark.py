"""Semi, anti and outer joins: of each row of the left, whether the right has its key."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.arrange import arranged_by
from tidemill.pipeline.operators.matching import weights_found
from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import relabel, settled, shaped
from tidemill.pipeline.plan.node import Mark, Node
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import (
    ZSet,
    concat,
    concat_rows,
    consolidate,
    group_rows,
    hash_rows,
    null_mask,
    pick,
)
from tidemill.pipeline.zset.value import Mask, take_rows


@dataclass(frozen=True, slots=True, eq=False)
class _Pending:
    """What the rounds of a step brought so far. `spine` tells one run of a step from another."""

    spine: Any
    left: tuple[ZSet, ...]
    right: tuple[ZSet, ...]


class MarkOperator(Operator):
    """Keeps how often the right has each key; the left's rows are in the spine of its arrangement.

    Puts out the rows of the left's change with the marks that hold after the step, and for keys that come or
    go, the other rows of the left with their old marks out and the new ones in. While the step has more
    rounds to come it puts out nothing: a mark that holds for a part of the step could make those raise who
    come next. Created late, it looks through all rows of the left at the end of its first step.
    """

    node: Mark
    cost = "O(change · log state + rows of the keys that come or go)"

    def __init__(self, node: Mark, inputs: Sequence[Node]) -> None:
        super().__init__(node, inputs)
        self._key = arranged_by(inputs[0])
        self._pending: _Pending | None = None

    def states(self) -> tuple[StateSpec, ...]:
        schema = self.inputs[1].schema
        return (StateSpec("", schema, tuple(range(len(schema)))),)

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        (left,), (right,) = inputs
        right = relabel(right, self.inputs[1].schema)
        if not self.node.null_safe:
            right = right.filter(~null_mask(right.rows, range(right.rows.num_columns)))
        if len(right):
            access.own().add(right)
        pending = self._extended(left, right, access)
        if not access.last_round:
            self._pending = pending
            return (ZSet.empty(self.node.schema),)
        if access.fresh:
            pieces = [self._marked(piece, self._has(piece.rows, access)) for piece in access.of(0).scan()]
            return (concat(pieces, self.node.schema),)
        change = concat(pending.left, self.inputs[0].schema)
        parts = [self._marked(change, self._has(change.rows, access))]
        parts += self._turned(change, consolidate(concat(pending.right, right.schema)), access)
        return (settled(concat(parts, self.node.schema)),)

    def _extended(self, left: ZSet, right: ZSet, access: Access) -> _Pending:
        known, self._pending = self._pending, None
        if access.fresh or known is None or known.spine is not access.own():
            known = _Pending(access.own(), (), ())
        return _Pending(known.spine, (*known.left, left), (*known.right, right))

    def _has(self, rows: pa.RecordBatch, access: Access) -> Mask:
        """Of each row of the left, whether the right now has its key."""
        groups = group_rows(rows, self._key)
        keys = pick(take_rows(rows, groups.first), self._key)
        found = weights_found(access.own().lookup(keys, groups.hashes), len(groups)) > 0
        return np.asarray(found[groups.number()], np.bool_)

    def _turned(self, left: ZSet, right: ZSet, access: Access) -> Iterator[ZSet]:
        """The rows that the left had before the step, of keys that the right gains or loses."""
        if not len(right):
            return
        after = weights_found(access.own().lookup(right.rows, hash_rows(right.rows)), len(right))
        came, went = ((after > 0) & (after <= right.weights), (after <= 0) & (after > right.weights))
        for turned, now in ((came, True), (went, False)):
            keys = right.rows.filter(pa.array(turned))
            if not keys.num_rows:
                continue
            found = access.of(0).lookup(keys, hash_rows(keys)).found
            new = left.filter(_among(pick(left.rows, self._key), keys)).negate()
            rows = consolidate(concat([found, relabel(new, found.schema)], found.schema))
            yield self._marked(rows.negate(), np.full(len(rows), not now))
            yield self._marked(rows, np.full(len(rows), now))

    def _marked(self, z: ZSet, marks: Mask) -> ZSet:
        return z.with_rows(shaped([*z.rows.columns, pa.array(marks)], self.node.schema, len(z)))


def _among(rows: pa.RecordBatch, keys: pa.RecordBatch) -> Mask:
    """Which of the rows is one of the keys."""
    together = concat_rows([keys, shaped(rows.columns, keys.schema, rows.num_rows)])
    numbers = group_rows(together).number()
    return np.isin(numbers[keys.num_rows :], numbers[: keys.num_rows])
