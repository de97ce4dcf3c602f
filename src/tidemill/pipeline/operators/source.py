"""Tables: appended rows become the exact change of the table, or the step is aborted."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.operators.matching import weights_found
from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import relabel, settled
from tidemill.pipeline.plan.node import Node, Source
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import Groups, ZSet, concat, concat_rows, consolidate, group_rows, pick
from tidemill.pipeline.zset.value import Mask, take_rows

_SAMPLE = 200
"""So many characters of a row are in a message."""


class SourceOperator(Operator):
    """Keeps the rows of a table and puts out their change. Its input is what was appended, in that order.

    Without a primary key, an append adds weights, and no row may be left with a negative one. That is judged
    at the end of the step: the rows of a change have no order.

    With one, each append of a row replaces the row of its key (positive weight) or deletes it (negative; all
    but the key may be NULL). A key must be there when it is deleted, at that point of the order.
    """

    node: Source
    cost = "O(change · log state)"

    def __init__(self, node: Source, inputs: Sequence[Node]) -> None:
        super().__init__(node, inputs)
        # The rows that have a negative weight after a round, to be judged in the last one. What a step that
        # failed leaves here does no harm: a row is always judged by the state.
        self._short = ZSet.empty(node.schema).rows

    def states(self) -> tuple[StateSpec, ...]:
        return (StateSpec("", self.node.schema, self.node.shard_key),)

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        ((appended,),) = inputs
        appended = self.admitted(relabel(appended, self.node.schema), access)
        change = self._replaced(appended, access) if self.node.key else settled(appended)
        if len(change):
            access.own().add(change)
        if not self.node.key:
            self._refuse_short(change, access)
        return (change,)

    def admitted(self, appended: ZSet, access: Access) -> ZSet:  # noqa: ARG002
        """What of an append counts."""
        return appended

    def _refuse_short(self, change: ZSet, access: Access) -> None:
        """Raise `StepAborted` in the last round if a row is left with a negative weight."""
        suspects = concat_rows([self._short, change.filter(change.weights < 0).rows])
        if not suspects.num_rows:
            return
        # By whole rows: their key, by which the rows are spread, may have many.
        suspects = take_rows(suspects, group_rows(suspects).first)
        self._short = suspects.filter(pa.array(access.own().weights(suspects) < 0))
        if self._short.num_rows and access.last_round:
            raise self._not_found(self._short)

    def _replaced(self, appended: ZSet, access: Access) -> ZSet:
        """The change when the last row of each key takes the place of what the table has."""
        appended = appended.filter(appended.weights != 0)
        if not len(appended):
            return appended
        groups = group_rows(appended.rows, self.node.key)
        matches = access.own().lookup(
            pick(take_rows(appended.rows, groups.first), self.node.key), groups.hashes
        )
        deletes = appended.weights < 0
        self._refuse_absent(appended.rows, deletes, groups, weights_found(matches, len(groups)) > 0)
        new = ZSet.of(take_rows(appended.rows, groups.last[~deletes[groups.last]]))
        if not len(matches.found):
            return new
        # Rows of different keys differ, so this adds up what was found and drops what stays as it is.
        return consolidate(concat([matches.found.negate(), new], self.node.schema))

    def _refuse_absent(self, rows: pa.RecordBatch, deletes: Mask, groups: Groups, present: Mask) -> None:
        """Raise `StepAborted` if a key is deleted that is not there: by the table, or after a delete."""
        if not deletes.any():
            return
        deleted = deletes[groups.order]
        there = np.append(True, ~deleted[:-1])
        there[groups.starts] = present
        wrong = groups.order[deleted & ~there]
        if len(wrong):
            raise self._not_found(pick(rows.slice(wrong.min(), 1), self.node.key))

    def _not_found(self, rows: pa.RecordBatch) -> StepAborted:
        sample = str(rows.slice(0, 1).to_pylist()[0])
        if len(sample) > _SAMPLE:
            sample = sample[:_SAMPLE] + "…"
        return StepAborted(
            f"[ROW_NOT_FOUND] table {self.node.table}: a delete of what is not there: {sample}"
        )
