"""Any other aggregate: each frame is a group, and each row of it belongs to that group.

Costs the rows of all frames, of which equal ones are taken once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import UNSET
from msgspec.structs import replace

from tidemill.pipeline.operators.aggregates import Layout
from tidemill.pipeline.operators.aggregates.measure import Touched
from tidemill.pipeline.operators.operator import Access, Moment
from tidemill.pipeline.operators.windows.frames import Frames
from tidemill.pipeline.operators.windows.partitions import Partitions
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.state.run import expand
from tidemill.pipeline.state.spec import Part
from tidemill.pipeline.state.spine import Spine
from tidemill.pipeline.zset import ZSet, hash_rows
from tidemill.pipeline.zset.value import Indices, take_rows

_CHUNK_PAIRS = 1 << 20
_GROUP = pa.field("frame", pa.int64(), nullable=False)
_NO_FILES: Any = None  # what is added to a spine in a step stays in memory


@dataclass(frozen=True, slots=True, eq=False)
class Grouped:
    """An aggregate over groups that are told by a column before all others."""

    schema: pa.Schema
    layout: Layout

    @staticmethod
    def of(call: AggregateCall, schema: pa.Schema) -> "Grouped":
        """Raises `Refused` if the function is not one over these types."""
        schema = pa.schema([_GROUP, *schema])
        return Grouped(schema, Layout(schema, (0,), (_moved(call),)))

    def value(self, rows: Partitions, frames: Frames) -> pa.Array:
        """The value of the function for each frame."""
        both = np.stack([frames.start, frames.stop], axis=1)
        each, which = np.unique(both, axis=0, return_inverse=True)
        parts = [self._of(rows, *each[part].T) for part in _chunks(each[:, 1] - each[:, 0])]
        found = (
            pa.chunked_array(parts).combine_chunks() if parts else pa.nulls(0, self.layout.functions[0].type)
        )
        return found.take(pa.array(which.reshape(-1)))

    def _of(self, rows: Partitions, start: Indices, stop: Indices) -> pa.Array:
        some = np.flatnonzero(stop > start)
        group, row = expand(some, start[some], (stop - start)[some])
        arrays = [pa.array(group), *take_rows(rows.rows, row).columns]
        change = ZSet.of(pa.RecordBatch.from_arrays(arrays, schema=self.schema))
        spines = [Spine(spec, Part(), _NO_FILES) for spec in self.layout.states]
        totals, *details = self.layout.combine(change)
        for spine, part in zip(spines[1:], details, strict=True):
            spine.add(part)
        counters = np.zeros((len(start), self.layout.width), np.int64)
        counters[totals.rows.column(0).to_numpy()] = totals.weights
        keys = pa.RecordBatch.from_arrays([pa.array(np.arange(len(start)))], schema=pa.schema([_GROUP]))
        access = Access(spines, (), fresh=False, last_round=True, moment=Moment(0, 0.0))
        groups = Touched(keys, hash_rows(keys))
        return self.layout.values(access, groups, counters, before=False)[0]


def _moved(call: AggregateCall) -> AggregateCall:
    """The same over columns that are one further."""
    further = tuple(one + 1 if isinstance(one, int) else one for one in call.further or ())
    return replace(
        call,
        argument=None if call.argument is None else call.argument + 1,
        filter=None if call.filter is None else call.filter + 1,
        further=further or UNSET,
    )


def _chunks(sizes: Indices) -> Iterator[slice]:
    """The frames in stretches of bounded size, or of one frame."""
    start, ends = 0, np.cumsum(sizes)
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _CHUNK_PAIRS, "right")))
        yield slice(start, stop)
        start = stop
