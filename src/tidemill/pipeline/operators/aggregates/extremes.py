"""MIN, MAX, MIN_BY, MAX_BY: the values of each group are kept in order, so that the next is at hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.aggregates.measure import (
    Chosen,
    Detail,
    Function,
    Integers,
    Looked,
    Touched,
)
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.state.order import has_order
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import Groups, ZSet, consolidate
from tidemill.pipeline.zset.value import Weights


@dataclass(frozen=True, slots=True)
class Values(Detail):
    """What the chosen rows hold in some columns, each with how often it is there, in order."""

    chosen: Chosen
    columns: tuple[int, ...]

    def fields(self, schema: pa.Schema) -> list[pa.Field]:
        kinds = [schema.field(column).type for column in self.columns]
        return [pa.field(f"value{place or ''}", kind) for place, kind in enumerate(kinds)]

    def combine(
        self, rows: pa.RecordBatch, weights: Weights, groups: Groups
    ) -> tuple[Integers, list[pa.Array], Weights]:
        columns = [pa.array(groups.number()), *map(rows.column, self.columns)]
        held = ZSet(pa.record_batch(columns, list(map(str, range(len(columns))))), weights)
        mask = self.chosen.mask(rows)
        found = consolidate(held if mask is None else held.filter(mask))
        group, *values = found.rows.columns
        return group.to_numpy(), values, found.weights

    def state(self, name: str, schema: pa.Schema, keys: int) -> StateSpec:
        """Ordered by the values, up to the first that has no order: a map. From there on by their hash."""
        order = takewhile(lambda place: has_order(schema.field(place).type), range(keys, len(schema)))
        return StateSpec(name, schema, tuple(range(keys)), order=tuple(order))


@dataclass(frozen=True, slots=True)
class Outermost(Looked):
    """Of each group the first values in their order, or the last; what they have in one column.

    NULL where there are none.
    """

    last: bool
    column: int = 0

    def read(self, spine: Any, groups: Touched, *, before: bool) -> pa.Array:
        matches = spine.extreme(groups.keys, groups.hashes, last=self.last, before=before)
        place = np.full(len(groups), -1, np.int64)
        place[matches.probe] = np.arange(len(matches.probe))
        values = matches.found.rows.column(groups.keys.num_columns + self.column)
        return values.take(pa.array(place, mask=place < 0))


class _Extreme(Function):
    last: ClassVar[bool]

    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        self.measures = (Outermost(Values(self.chosen, call.columns), self.last),)

    def value(self, *found: Any) -> pa.Array:
        return found[0]


class Min(_Extreme):
    last = False


class Max(_Extreme):
    last = True


class _ExtremeBy(_Extreme):
    """What the first argument is where the second is outermost; among several of those, outermost itself."""

    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        value, by = call.columns
        self.measures = (Outermost(Values(Chosen((by,), call.filter), (by, value)), self.last, 1),)

    @classmethod
    def takes(cls, *kinds: pa.DataType) -> bool:
        return len(kinds) == 2


class MinBy(_ExtremeBy):
    last = False


class MaxBy(_ExtremeBy):
    last = True
