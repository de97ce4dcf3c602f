"""Temporal filters: rows that come and go with the clock of the step."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import relabel
from tidemill.pipeline.plan.node import Node, Temporal, TemporalCondition
from tidemill.pipeline.state.spans import Place
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import ZSet, concat, consolidate, hash_rows
from tidemill.pipeline.zset.value import Indices, Mask, batch, empty_rows

COMPARE = {
    ">": np.greater,
    ">=": np.greater_equal,
    "<": np.less,
    "<=": np.less_equal,
    "=": np.equal,
}
ENDS = {">", ">=", "="}
"""Comparisons with the clock that become false one day for good; the others become true for good."""
Range = tuple[int, int]
"""Numbers from the first to the last, both included."""


class TemporalOperator(Operator):
    """Keeps the rows whose time to come or to go is still ahead, in the order of each compared column.

    When the clock has moved, the rows whose value it has passed are looked at again. Each row is judged by
    itself, so any pipeline worker may hold any row.
    """

    node: Temporal
    cost = "O((change + rows that come or go) · log state)"

    def __init__(self, node: Temporal, inputs: Sequence[Node]) -> None:
        super().__init__(node, inputs)
        self.columns = sorted({condition.column for condition in node.conditions})
        self.ending = [condition for condition in node.conditions if condition.compare in ENDS]
        self._turned: tuple[Any, int] | None = None

    def states(self) -> tuple[StateSpec, ...]:
        return tuple(
            StateSpec(str(slot) if slot else "", self.node.schema, (), order=(column,), aligned=False)
            for slot, column in enumerate(self.columns)
        )

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        ((change,),) = inputs
        change = relabel(change, self.node.schema)
        now, since = _us(access.moment.clock_s), _us(access.moment.since_s)
        parts = [self._turn(access, since, now)] if self._is_first_round(access) else []
        self._add(access, change.filter(self._undecided(change, now)))
        parts.append(change.filter(self._visible(change, now)))
        return (consolidate(concat(parts, self.node.schema)),)

    def _is_first_round(self, access: Access) -> bool:
        """Whether the state is still that before the step; then the clock has its turn."""
        before, self._turned = self._turned, (access.own(), access.moment.step)
        again = before is not None and before[0] is access.own() and before[1] == access.moment.step
        return not again and not access.fresh

    def _turn(self, access: Access, since: int, now: int) -> ZSet:
        """What comes and goes because the clock has moved; what is decided by now is kept no longer."""
        passed = [list(self._passed(column, since, now)) for column in self.columns]
        shown, decided = [ZSet.empty(self.node.schema)], []
        for slot, column in enumerate(self.columns):
            found = self._between(access.own(slot), column, passed[slot])
            # A row that the clock has passed in several columns is found in each of them.
            for other, ranges in zip(self.columns[:slot], passed, strict=False):
                found = found.filter(~_within(_numbers(found, other), ranges))
            turned = self._visible(found, now).astype(np.int64) - self._visible(found, since)
            shown.append(ZSet(found.rows, found.weights * turned).filter(turned != 0))
            decided.append(found.filter(self._undecided(found, since) & ~self._undecided(found, now)))
        self._add(access, concat(decided, self.node.schema).negate())
        return concat(shown, self.node.schema)

    def _passed(self, column: int, since: int, now: int) -> Iterator[Range]:
        """The values of a column for which a condition, or whether it is decided, may be different now."""
        if since == now:
            return
        for condition in self.node.conditions:
            if condition.column == column:
                for moment in (condition.clock.at, condition.clock.past):
                    before, after = moment(since), moment(now)
                    yield min(before, after), max(before, after)

    def _between(self, spine: Any, column: int, ranges: Sequence[Range]) -> ZSet:
        """The rows of the state with a value in one of the ranges, each once."""
        apart = _united(ranges)
        if not apart:
            return ZSet.empty(self.node.schema)
        keys = empty_rows(pa.schema([]), len(apart))
        field = self.node.schema.field(column)
        low = Place(_column([start for start, _ in apart], field))
        high = Place(_column([end for _, end in apart], field), after=True)
        found: ZSet = spine.between(keys, hash_rows(keys), low, high, before=True).found
        return found

    def _visible(self, z: ZSet, now: int) -> Mask:
        """Which rows are there when the clock shows this."""
        shown = np.ones(len(z), np.bool_)
        for condition in self.node.conditions:
            shown &= _valid(z, condition.column)
            shown &= COMPARE[condition.compare](_numbers(z, condition.column), condition.clock.at(now))
        return shown

    def _undecided(self, z: ZSet, now: int) -> Mask:
        """Which rows may still come or go: if they can end at all, those that have not ended yet."""
        kept = np.logical_and.reduce([_valid(z, column) for column in self.columns])
        if self.ending:
            return np.asarray(kept & np.logical_and.reduce([_ahead(z, one, now) for one in self.ending]))
        return np.asarray(kept & np.logical_or.reduce([_ahead(z, one, now) for one in self.node.conditions]))

    def _add(self, access: Access, rows: ZSet) -> None:
        if len(rows):
            for slot in range(len(self.columns)):
                access.own(slot).add(rows)


def _ahead(z: ZSet, condition: TemporalCondition, now: int) -> Mask:
    return np.asarray(_numbers(z, condition.column) >= condition.clock.past(now))


def _us(seconds: float) -> int:
    """The clock of a step counts milliseconds."""
    return round(seconds * 1000) * 1000


def _valid(z: ZSet, column: int) -> Mask:
    return np.asarray(z.rows.column(column).is_valid().to_numpy(zero_copy_only=False))


def _numbers(z: ZSet, column: int) -> Indices:
    """The values as numbers; any number where there is none."""
    values = z.rows.column(column)
    width = pa.int32() if values.type == pa.date32() else pa.int64()
    return np.asarray(values.view(width).fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _column(values: Sequence[int], field: pa.Field) -> pa.RecordBatch:
    """Numbers as values of a column; those beyond what it can hold become the first or last."""
    width, last = (pa.int32(), 2**31 - 1) if field.type == pa.date32() else (pa.int64(), 2**63 - 1)
    inside = pa.array([min(max(value, -last - 1), last) for value in values], width)
    return batch([inside.view(field.type)], pa.schema([field]), len(inside))


def _united(ranges: Sequence[Range]) -> list[Range]:
    """The same numbers in ranges that do not overlap."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found


def _within(values: Indices, ranges: Sequence[Range]) -> Mask:
    inside = np.zeros(len(values), np.bool_)
    for low, high in ranges:
        inside |= (values >= low) & (values <= high)
    return inside
