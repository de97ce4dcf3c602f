"""MIN and MAX: the values of each group are kept in order, so that the next is there when one goes."""

from dataclasses import dataclass
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
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import Groups, ZSet, consolidate
from tidemill.pipeline.zset.value import Weights


@dataclass(frozen=True, slots=True)
class Values(Detail):
    """The values of a column, each with how often it is there. NULL is none."""

    chosen: Chosen

    def field(self, schema: pa.Schema) -> pa.Field:
        return pa.field("value", schema.field(self.chosen.column).type)

    def combine(
        self, rows: pa.RecordBatch, weights: Weights, groups: Groups
    ) -> tuple[Integers, pa.Array, Weights]:
        number, value = pa.array(groups.number()), rows.column(self.chosen.column)
        pairs = ZSet(pa.record_batch([number, value], ["group", "value"]), weights)
        mask = self.chosen.mask(rows)
        found = consolidate(pairs if mask is None else pairs.filter(mask))
        return found.rows.column(0).to_numpy(), found.rows.column(1), found.weights

    def state(self, name: str, schema: pa.Schema) -> StateSpec:
        """Ordered by the value. Raises `UnsupportedType` for one that has no order."""
        last = len(schema) - 1
        return StateSpec(name, schema, tuple(range(last)), order=(last,))


@dataclass(frozen=True, slots=True)
class Outermost(Looked):
    """The least value of each group, or the greatest; NULL where there is none."""

    last: bool

    def read(self, spine: Any, groups: Touched, *, before: bool) -> pa.Array:
        matches = spine.extreme(groups.keys, groups.hashes, last=self.last, before=before)
        place = np.full(len(groups), -1, np.int64)
        place[matches.probe] = np.arange(len(matches.probe))
        values = matches.found.rows.column(groups.keys.num_columns)
        return values.take(pa.array(place, mask=place < 0))


class _Extreme(Function):
    last: ClassVar[bool]

    def __init__(self, call: AggregateCall, argument: pa.Field) -> None:
        super().__init__(call, argument)
        self.measures = (Outermost(Values(self.chosen), self.last),)

    def value(self, *found: Any) -> pa.Array:
        return found[0]


class Min(_Extreme):
    last = False


class Max(_Extreme):
    last = True
