"""Tables whose rows come roughly in the order of time: what comes too late is dropped and counted."""

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.matching import weights_found
from tidemill.pipeline.operators.operator import Access
from tidemill.pipeline.operators.source import SourceOperator
from tidemill.pipeline.plan.node import TimedSource
from tidemill.pipeline.state.forget import numbers_of
from tidemill.pipeline.zset import ZSet, group_rows, pick
from tidemill.pipeline.zset.equality import valid_mask
from tidemill.pipeline.zset.value import Mask, take_rows


class TimedSourceOperator(SourceOperator):
    """Passes by what is said of rows below the waterline: that they are there, are not, or are others now.

    The waterline is that of earlier steps, so it is the same for all rows of one, in whatever order and
    wherever they come.
    """

    node: TimedSource

    def admitted(self, appended: ZSet, access: Access) -> ZSet:
        highest = access.moment.highest.get(self.node.label)
        kept = appended
        if highest is not None and len(appended):
            waterline = highest - self.node.lateness_us
            kept = appended.filter(~self._below(appended.rows, waterline))
            if self.node.key:
                kept = kept.filter(~self._replaces_below(kept, waterline, access))
        if dropped := int(np.abs(appended.weights).sum() - np.abs(kept.weights).sum()):
            access.notes.drop(self.node.table, dropped)
        self._note_highest(kept.filter(kept.weights > 0).rows, access)
        return kept

    def _below(self, rows: pa.RecordBatch, waterline: int) -> Mask:
        """Which rows are of a time before the waterline. One without a time is not."""
        column = rows.column(self.node.time)
        return np.asarray(valid_mask(column) & (numbers_of(column) < waterline))

    def _replaces_below(self, appended: ZSet, waterline: int, access: Access) -> Mask:
        """Which rows have the key of a row that the table holds and that is below the waterline."""
        groups = group_rows(appended.rows, self.node.key)
        keys = pick(take_rows(appended.rows, groups.first), self.node.key)
        matches = access.own().lookup(keys, groups.hashes)
        below = self._below(matches.found.rows, waterline)
        matches = type(matches)(matches.probe[below], matches.found.filter(below))
        return np.asarray(weights_found(matches, len(groups)) > 0)[groups.number()]

    def _note_highest(self, rows: pa.RecordBatch, access: Access) -> None:
        column = rows.column(self.node.time)
        times = numbers_of(column)[valid_mask(column)]
        if len(times):
            access.notes.reach(self.node.label, int(times.max()))
