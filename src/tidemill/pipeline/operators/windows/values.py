"""Functions that take the value of another row: LAG, LEAD, first, last and nth value, and lists of values."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.operators.aggregates.measure import Chosen
from tidemill.pipeline.operators.windows.frames import Frames
from tidemill.pipeline.operators.windows.partitions import Partitions
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.state.run import expand
from tidemill.pipeline.zset.value import Indices, Mask

Value = Callable[[Partitions, Frames, AggregateCall], pa.Array]


class Seen:
    """The rows that a function looks at, among all: those its filter lets through, or without NULLs."""

    def __init__(self, rows: Partitions, call: AggregateCall, *, nulls: bool) -> None:
        self.column = rows.rows.column(call.columns[0])
        mask = Chosen(() if nulls else call.columns[:1], call.filter).mask(rows.rows)
        self.rows = np.arange(len(rows)) if mask is None else np.flatnonzero(mask)
        self.before = np.arange(len(rows) + 1) if mask is None else np.append(0, np.cumsum(mask))
        """How many of them come before each row."""

    def taken(self, place: Indices, there: Mask) -> pa.Array:
        """The values at these places among the rows seen; NULL where there is none."""
        if not there.any():
            return pa.nulls(len(place), self.column.type)
        at = self.rows[np.where(there, place, 0)]
        return self.column.take(pa.array(at, mask=~there))


def offset(rows: Partitions, frames: Frames, call: AggregateCall) -> pa.Array:  # noqa: ARG001
    """LAG and LEAD: the value so many rows away, or the default if there is no such row."""
    away, row = int(call.options["away"]), np.arange(len(rows))
    if call.options.get("ignoreNulls") == "true" and away:
        seen = Seen(rows, call, nulls=False)
        place = seen.before[row + 1] + away - 1 if away > 0 else seen.before[row] + away
        there = (place >= seen.before[rows.start]) & (place < seen.before[rows.stop])
    else:
        seen, place = Seen(rows, call, nulls=True), row + away
        there = (place >= rows.start) & (place < rows.stop)
    found = seen.taken(place, there)
    if len(call.columns) == 1:
        return found
    return pc.if_else(pa.array(there), found, rows.rows.column(call.columns[1]))


def first(rows: Partitions, frames: Frames, call: AggregateCall) -> pa.Array:
    return _nth(rows, frames, call, 0)


def nth(rows: Partitions, frames: Frames, call: AggregateCall) -> pa.Array:
    return _nth(rows, frames, call, int(call.options["nth"]) - 1)


def last(rows: Partitions, frames: Frames, call: AggregateCall) -> pa.Array:
    seen = Seen(rows, call, nulls=call.options.get("ignoreNulls") != "true")
    start, stop = seen.before[frames.start], seen.before[frames.stop]
    return seen.taken(stop - 1, stop > start)


def _nth(rows: Partitions, frames: Frames, call: AggregateCall, number: int) -> pa.Array:
    seen = Seen(rows, call, nulls=call.options.get("ignoreNulls") != "true")
    place = seen.before[frames.start] + number
    return seen.taken(place, place < seen.before[frames.stop])


def values(rows: Partitions, frames: Frames, call: AggregateCall) -> pa.Array:
    """The list of values in the frame, in the order of its rows, without NULLs."""
    seen = Seen(rows, call, nulls=False)
    start, stop = seen.before[frames.start], seen.before[frames.stop]
    some = np.flatnonzero(stop > start)
    _, place = expand(some, start[some], (stop - start)[some])
    offsets = pa.array(np.append(0, np.cumsum(stop - start)))
    return pa.LargeListArray.from_arrays(offsets, seen.column.take(pa.array(seen.rows[place])), call.type)


VALUES: dict[str, Value] = {
    "Lag": offset,
    "Lead": offset,
    "First": first,
    "Last": last,
    "NthValue": nth,
    "CollectList": values,
}
"""By Catalyst's name."""
