"""SINGLE: what a group's only value is. A lowering makes it where it knows that there is at most one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.aggregates.extremes import Values
from tidemill.pipeline.operators.aggregates.measure import Detail, Function, Looked, Touched
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import ZSet, consolidate


@dataclass(frozen=True, slots=True)
class Unordered(Values):
    """As `Values`, also of types that have no order."""

    def state(self, name: str, schema: pa.Schema, keys: int) -> StateSpec:
        return Detail.state(self, name, schema, keys)


@dataclass(frozen=True, slots=True)
class OnlyValue(Looked):
    """The value of each group, NULL where there is none."""

    def read(self, spine: Any, groups: Touched, *, before: bool) -> pa.Array:
        matches = spine.lookup(groups.keys, groups.hashes, before=before)
        value = matches.found.rows.column(groups.keys.num_columns)
        held = pa.record_batch([pa.array(matches.probe), value], ["group", "value"])
        there = consolidate(ZSet(held, matches.found.weights))
        place = np.full(len(groups), -1, np.int64)
        place[there.rows.column(0).to_numpy()] = np.arange(len(there))
        return there.rows.column(1).take(pa.array(place, mask=place < 0))


class Single(Function):
    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        self.measures = (OnlyValue(Unordered(self.chosen, call.columns)),)

    def value(self, *found: Any) -> pa.Array:
        return found[0]
