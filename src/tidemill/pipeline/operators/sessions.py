"""Session windows: rows whose times lie close together, told by the time that their session spans."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import relabel
from tidemill.pipeline.plan.node import Node, Sessions
from tidemill.pipeline.state.spans import Place
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import ZSet, concat, consolidate, group_rows, hash_rows, pick
from tidemill.pipeline.zset.value import Indices, batch, take_rows

_ROWS, _SESSIONS = 0, 1


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Rows sorted by key and start (`order`), cut into sessions: `session` is the number of each row's.

    `first` says where in the order each session begins; `start` and `end` are what it spans.
    """

    order: Indices
    session: Indices
    first: Indices
    start: Indices
    end: Indices


class SessionsOperator(Operator):
    """Keeps the rows, and the sessions that they make up, both ordered by time within their key.

    A change is put together with the rows of those sessions which it meets: no other can be different after
    it. While a step has more rounds to come it puts out nothing.
    """

    node: Sessions
    cost = "O(rows of the touched sessions · log state)"

    def __init__(self, node: Sessions, inputs: Sequence[Node]) -> None:
        super().__init__(node, inputs)
        schema, columns = node.schema, (*node.keys, node.start, node.end)
        self.session_schema = pa.schema([schema.field(column) for column in columns])
        self._pending: tuple[Any, list[ZSet]] | None = None

    def states(self) -> tuple[StateSpec, ...]:
        count = len(self.node.keys)
        rows = StateSpec("", self.node.schema, self.node.keys, order=(self.node.start,))
        return rows, StateSpec("1", self.session_schema, tuple(range(count)), order=(count,))

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        ((change,),) = inputs
        change = self._with_earlier_rounds(relabel(change, self.node.schema), access)
        if not access.last_round or not len(change):
            return (ZSet.empty(self.node.schema),)
        met = self._met(self._sessions(change.rows), access)
        before = self._rows_of(met, access)
        after = consolidate(concat([before, change], self.node.schema))
        access.own(_ROWS).add(change)
        sessions = [met.negate(), self._sessions(after.rows)]
        access.own(_SESSIONS).add(consolidate(concat(sessions, self.session_schema)))
        told = [self._told(before).negate(), self._told(after)]
        return (consolidate(concat(told, self.node.schema)),)

    def _with_earlier_rounds(self, change: ZSet, access: Access) -> ZSet:
        """All that the step has brought so far. Rounds of one that was given up are not continued."""
        pending, self._pending = self._pending, None
        earlier = pending[1] if pending is not None and pending[0] is access.own() else []
        if not access.last_round:
            self._pending = access.own(), [*earlier, change]
            return change
        return consolidate(concat([*earlier, change], self.node.schema))

    def _met(self, sessions: ZSet, access: Access) -> ZSet:
        """The sessions there are that one of these overlaps or touches."""
        count, spine = len(self.node.keys), access.own(_SESSIONS)
        keys = pick(sessions.rows, range(count))
        hashes = hash_rows(keys)
        start, end = (Place(pick(sessions.rows, [column]), after=True) for column in (count, count + 1))
        within = consolidate(spine.between(keys, hashes, start, end).found)
        earlier = spine.extreme(keys, hashes, last=True, high=start)
        reaches = _numbers(earlier.found.rows, count + 1) >= _numbers(sessions.rows, count)[earlier.probe]
        found = concat([within, earlier.found.filter(reaches)], self.session_schema)
        return ZSet.of(take_rows(found.rows, group_rows(found.rows).first))

    def _rows_of(self, sessions: ZSet, access: Access) -> ZSet:
        """The rows that make up these sessions: all that start within them."""
        count = len(self.node.keys)
        keys = pick(sessions.rows, range(count))
        low, high = Place(pick(sessions.rows, [count])), Place(pick(sessions.rows, [count + 1]), after=True)
        return consolidate(access.own(_ROWS).between(keys, hash_rows(keys), low, high).found)

    def _spans(self, rows: pa.RecordBatch) -> Spans:
        number = group_rows(rows, self.node.keys).number()
        start, end = _numbers(rows, self.node.start), _numbers(rows, self.node.end)
        order = np.lexsort((start, number))
        number, start = number[order], start[order]
        # The latest end so far, key by key: ends are ranked, so that a key and a rank make one number.
        ends, rank = np.unique(end[order], return_inverse=True)
        latest = ends[np.maximum.accumulate(number * len(ends) + rank) % max(len(ends), 1)]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (number[1:] != number[:-1]) | (start[1:] > latest[:-1])
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(order)) - 1 if len(order) else first
        return Spans(order, np.cumsum(begins) - 1, first, start[first], latest[last])

    def _sessions(self, rows: pa.RecordBatch) -> ZSet:
        """The sessions that rows make up, as their state has them."""
        spans = self._spans(rows)
        keys = take_rows(pick(rows, self.node.keys), spans.order[spans.first])
        kind = self.session_schema.field(len(self.node.keys)).type
        columns = [*keys.columns, _times(spans.start, kind), _times(spans.end, kind)]
        return ZSet.of(batch(columns, self.session_schema, len(spans.first)))

    def _told(self, z: ZSet) -> ZSet:
        """The rows with the start and end of their session in place of their own."""
        spans = self._spans(z.rows)
        sorted_ = z.take(spans.order)
        columns = list(sorted_.rows.columns)
        kind = columns[self.node.start].type
        columns[self.node.start] = _times(spans.start[spans.session], kind)
        columns[self.node.end] = _times(spans.end[spans.session], kind)
        return sorted_.with_rows(batch(columns, self.node.schema, len(z)))


def _numbers(rows: pa.RecordBatch, column: int) -> Indices:
    return np.asarray(rows.column(column).view(pa.int64()).to_numpy(zero_copy_only=False))


def _times(values: Indices, kind: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int64()).view(kind)
