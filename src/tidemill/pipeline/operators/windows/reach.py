"""How far a change reaches where all frames are bounded: only rows near it are computed anew.

A row sees as far as its frame goes, and a change is seen from as far as frames go the other way. Both are
found in the sorted state. What is seen from somewhere in a stretch of rows makes a *zone*: between its first
and its last row, values may change; nowhere else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.aggregates.measure import Touched, stretches
from tidemill.pipeline.operators.windows.partitions import Ordering
from tidemill.pipeline.plan.node import Bound, WindowCall
from tidemill.pipeline.state.order import comes_before, dense_ranks, order_codes
from tidemill.pipeline.state.spans import Place
from tidemill.pipeline.state.spine import Matches
from tidemill.pipeline.zset import ZSet, concat_rows, group_rows, hash_rows, pick
from tidemill.pipeline.zset.value import Indices, Mask, take_rows

OFFSETS = {"Lag", "Lead"}


@dataclass(frozen=True, slots=True, eq=False)
class Marks:
    """A row of each of some partitions, which need not be there: a place in their order."""

    groups: Touched
    rows: pa.RecordBatch
    hashes: Any

    @staticmethod
    def of(groups: Touched, rows: pa.RecordBatch) -> "Marks":
        return Marks(groups, rows, hash_rows(rows))

    def __len__(self) -> int:
        return len(self.groups)

    def take(self, indices: Indices) -> "Marks":
        return Marks(self.groups.take(indices), take_rows(self.rows, indices), self.hashes[indices])

    def place(self, ordering: Ordering, *, after: bool) -> Place:
        return Place(pick(self.rows, ordering.columns), after, self.hashes)


Look = Callable[[Any, Marks, bool], Matches]
"""Rows of a spine that are seen from marks, before or after this round."""


class Reach:
    """What bounded frames see, and from where they see a row: to the `back`, and `ahead`."""

    def __init__(self, calls: tuple[WindowCall, ...], ordering: Ordering) -> None:
        self._ordering = ordering
        rows = [_rows(call) for call in calls]
        before = max((-low for low, _ in filter(None, rows)), default=0)
        after = max((high for _, high in filter(None, rows)), default=0)
        values = {(call.low, call.high) for call, found in zip(calls, rows, strict=True) if found is None}
        pairs = [(self._columns(low), self._columns(high)) for low, high in sorted(values, key=str)]
        self.sees_back = [self._neighbours(before, last=True), *(self._from(low) for low, _ in pairs)]
        self.sees_ahead = [self._neighbours(after, last=False), *(self._to(high) for _, high in pairs)]
        self.seen_back = [self._neighbours(after, last=True), *(self._first(high) for _, high in pairs)]
        self.seen_ahead = [self._neighbours(before, last=False), *(self._last(low) for low, _ in pairs)]

    def _columns(self, bound: Bound) -> tuple[int, ...]:
        return (bound.at,) if bound.kind == "value" else self._ordering.columns

    def _neighbours(self, count: int, *, last: bool) -> Look:
        """So many rows right before the mark, or right after it."""

        def look(spine: Any, marks: Marks, before: bool) -> Matches:
            place = marks.place(self._ordering, after=not last)
            edge = {"high": place} if last else {"low": place}
            return _extreme(spine, marks, before, last=last, count=count, **edge)

        return look

    def _from(self, columns: tuple[int, ...]) -> Look:
        """The first row of a frame that starts with the mark's values in these columns."""
        return lambda spine, marks, before: _extreme(
            spine, marks, before, last=False, low=Place(pick(marks.rows, columns))
        )

    def _to(self, columns: tuple[int, ...]) -> Look:
        """The last row of a frame that ends with them."""
        return lambda spine, marks, before: _extreme(
            spine, marks, before, last=True, high=Place(pick(marks.rows, columns), after=True)
        )

    def _first(self, columns: tuple[int, ...]) -> Look:
        """The first row whose frame, which ends with its values in these columns, goes as far as the mark."""
        return lambda spine, marks, before: _extreme(
            spine, marks, before, last=False, low=self._mark_in(marks, columns, after=False)
        )

    def _last(self, columns: tuple[int, ...]) -> Look:
        """The last row whose frame, which starts with them, does not start after the mark."""
        return lambda spine, marks, before: _extreme(
            spine, marks, before, last=True, high=self._mark_in(marks, columns, after=True)
        )

    def _mark_in(self, marks: Marks, columns: tuple[int, ...], *, after: bool) -> Place:
        values = pick(marks.rows, self._ordering.columns[: len(columns)])
        return Place(values, after, columns=columns)


def reach_of(calls: tuple[WindowCall, ...], ordering: Ordering) -> Reach | None:
    """None where a function sees or is seen from one end of the partition, wherever that is."""
    return Reach(calls, ordering) if ordering.columns and bounded(calls) else None


def bounded(calls: tuple[WindowCall, ...]) -> bool:
    """Whether the functions see so many rows or values from each row, and no end of its partition."""
    return all(_rows(call) is not None or _by_value(call) for call in calls)


def _rows(call: WindowCall) -> tuple[int, int] | None:
    """From which row to which a function sees, none of it beyond the row itself; None if not by rows."""
    if call.call.function in OFFSETS and call.call.options.get("ignoreNulls") != "true":
        away = int(call.call.options["away"])
        return min(away, 0), max(away, 0)
    if call.low.kind == call.high.kind == "rows":
        return min(call.low.at, 0), max(call.high.at, 0)
    return None


def _by_value(call: WindowCall) -> bool:
    return {call.low.kind, call.high.kind} <= {"value", "peers"}


def _extreme(spine: Any, marks: Marks, before: bool, *, count: int = 1, **wanted: Any) -> Matches:
    if not count:
        return Matches(np.zeros(0, np.int64), ZSet.empty(spine.spec.schema))
    groups = marks.groups
    found: Matches = spine.extreme(groups.keys, groups.hashes, count=count, before=before, **wanted)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Zones:
    """Stretches of partitions, none of which meet: each from a first row to a last."""

    first: Marks
    last: Marks

    def __len__(self) -> int:
        return len(self.first)

    def holds(self, zone: Indices, rows: pa.RecordBatch, ordering: Ordering) -> Mask:
        """Whether each row lies in the zone of this number."""
        hashes = hash_rows(rows)
        mine = pick(rows, ordering.columns)
        first, last = self.first.take(zone), self.last.take(zone)
        early = comes_before(
            mine, pick(first.rows, ordering.columns), ordering.directions, or_equal=hashes < first.hashes
        )
        in_time = comes_before(
            mine, pick(last.rows, ordering.columns), ordering.directions, or_equal=hashes <= last.hashes
        )
        return in_time & ~early


def zones_of(spine: Any, reach: Reach, changed: Marks, ordering: Ordering) -> Zones:
    """Where values may change when these rows do. The marks of one partition are `changed` in any order."""
    ends = []
    for looks, last in ((reach.seen_back, False), (reach.seen_ahead, True)):
        ends.append(_outermost(spine, looks, changed, ordering, last=last, states=(True, False)))
    return _merged(Zones(*ends), ordering)


def input_of(spine: Any, reach: Reach, zones: Zones, ordering: Ordering, *, before: bool) -> Matches:
    """All rows that are seen from the zones: of which zone, and the row."""
    first = _outermost(spine, reach.sees_back, zones.first, ordering, last=False, states=(before,))
    last = _outermost(spine, reach.sees_ahead, zones.last, ordering, last=True, states=(before,))
    # A frame may lie all on one side of its row.
    groups = zones.first.groups
    low, high = first.place(ordering, after=False), last.place(ordering, after=True)
    found: Matches = spine.between(groups.keys, groups.hashes, low, high, before=before)
    return found


def _outermost(
    spine: Any, looks: list[Look], marks: Marks, ordering: Ordering, *, last: bool, states: tuple[bool, ...]
) -> Marks:
    """For each mark the outermost of itself and of what the looks find from it."""
    found = [look(spine, marks, before) for look in looks for before in states]
    found = [one for one in found if len(one.probe)]
    owner = np.concatenate([np.arange(len(marks)), *(one.probe for one in found)])
    rows = concat_rows([marks.rows, *(one.found.rows for one in found)])
    hashes = np.concatenate([marks.hashes, *(hash_rows(one.found.rows) for one in found)])
    codes = order_codes(rows, ordering.columns, ordering.directions)
    order = np.lexsort([hashes, *codes[::-1], owner])
    starts = stretches(owner[order])
    chosen = order[np.append(starts[1:], len(order)) - 1] if last else order[starts]
    return Marks(marks.groups, take_rows(rows, chosen), hashes[chosen])


def _merged(zones: Zones, ordering: Ordering) -> Zones:
    """Zones that meet made one."""
    count = len(zones)
    rows = concat_rows([zones.first.rows, zones.last.rows])
    codes = order_codes(rows, ordering.columns, ordering.directions)
    place = dense_ranks([*codes, np.concatenate([zones.first.hashes, zones.last.hashes])], 2 * count)
    groups = zones.first.groups
    base = group_rows(groups.keys, None, groups.hashes).number() * (2 * count)
    first, last = base + place[:count], base + place[count:]
    order, by_end = np.argsort(first, kind="stable"), np.argsort(last, kind="stable")
    furthest = np.maximum.accumulate(last[order])
    starts = np.flatnonzero(np.append(True, first[order][1:] > furthest[:-1]))
    ends = furthest[np.append(starts[1:], count) - 1]
    chosen = by_end[np.searchsorted(last[by_end], ends)]
    return Zones(zones.first.take(order[starts]), zones.last.take(chosen))
