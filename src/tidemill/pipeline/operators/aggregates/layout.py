"""The functions of one aggregation put together: counters side by side, one Z-set for each detail.

The exact sums of all functions are one detail.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline import types
from tidemill.pipeline.errors import Refused
from tidemill.pipeline.operators.aggregates import moments
from tidemill.pipeline.operators.aggregates.bits import BitAnd, BitOr, BitXor
from tidemill.pipeline.operators.aggregates.collections import CollectList, CollectSet, ListAgg
from tidemill.pipeline.operators.aggregates.counts import ALL_ROWS, Count
from tidemill.pipeline.operators.aggregates.decimals import DecimalAverage, DecimalSum
from tidemill.pipeline.operators.aggregates.extremes import Max, MaxBy, Min, MinBy
from tidemill.pipeline.operators.aggregates.firsts import First, Last, PivotFirst
from tidemill.pipeline.operators.aggregates.floats import Accumulators, FloatAverage, FloatSum
from tidemill.pipeline.operators.aggregates.integers import IntegerAverage, IntegerSum
from tidemill.pipeline.operators.aggregates.keys import normalised
from tidemill.pipeline.operators.aggregates.measure import (
    Counters,
    Detail,
    ExactSum,
    Folded,
    Function,
    Looked,
    Measure,
    Touched,
)
from tidemill.pipeline.operators.aggregates.percentiles import Mode, Percentile, PercentileDisc
from tidemill.pipeline.operators.aggregates.states import Stateful
from tidemill.pipeline.operators.aggregates.user import Recomputed
from tidemill.pipeline.operators.operator import Access, Flow, Port
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import Groups, ZSet, group_rows, multiply_checked
from tidemill.pipeline.zset.value import Weights, batch, empty_rows, take_rows

FUNCTIONS: dict[str, tuple[type[Function], ...]] = {
    "Count": (Count,),
    "Sum": (IntegerSum, DecimalSum, FloatSum),
    "Average": (IntegerAverage, DecimalAverage, FloatAverage),
    "Min": (Min,),
    "Max": (Max,),
    "MinBy": (MinBy,),
    "MaxBy": (MaxBy,),
    "First": (First,),
    "Last": (Last,),
    "PivotFirst": (PivotFirst,),
    "CollectList": (CollectList,),
    "CollectSet": (CollectSet,),
    "ListAgg": (ListAgg,),
    "Percentile": (Percentile,),
    "PercentileDisc": (PercentileDisc,),
    "Mode": (Mode,),
    "BitAndAgg": (BitAnd,),
    "BitOrAgg": (BitOr,),
    "BitXorAgg": (BitXor,),
    "VariancePop": (moments.VariancePop,),
    "VarianceSamp": (moments.VarianceSamp,),
    "StddevPop": (moments.StddevPop,),
    "StddevSamp": (moments.StddevSamp,),
    "Skewness": (moments.Skewness,),
    "Kurtosis": (moments.Kurtosis,),
    "CovPopulation": (moments.CovPopulation,),
    "CovSample": (moments.CovSample,),
    "Corr": (moments.Corr,),
    "RegrReplacement": (moments.RegrReplacement,),
    "RegrSXY": (moments.RegrSxy,),
    "RegrR2": (moments.RegrR2,),
    "RegrSlope": (moments.RegrSlope,),
    "RegrIntercept": (moments.RegrIntercept,),
    "Stateful": (Stateful,),
    "Recomputed": (Recomputed,),
}
"""By Catalyst's name, what may compute it: the first that takes the types of the arguments."""


def function_of(call: AggregateCall, schema: pa.Schema) -> Function:
    """The function over rows of this schema. Raises `Refused` if there is none for the arguments' types."""
    arguments = [schema.field(column) for column in call.columns]
    kinds = [argument.type for argument in arguments]
    for function in FUNCTIONS.get(call.function, ()):
        if function.takes(*kinds):
            return function(call, arguments)
    over = f" over {', '.join(map(types.sql_name, kinds))}" if kinds else ""
    raise Refused(f"the aggregate function {call.function}{over} cannot be kept incrementally")


_CHUNK_GROUPS = 8192
"""So many are looked up together, as what is found for them lies in a cache."""


class Layout:
    """What `Combine` puts out and `Aggregate` keeps. Both make it from the same plan, so that they agree.

    The first port has a row per group that rows were added to or taken from, with its counters, the first of
    which counts rows; then each detail has a port. All rows start with the group's columns.
    """

    def __init__(self, schema: pa.Schema, keys: Sequence[int], calls: Sequence[AggregateCall]) -> None:
        self.keys = tuple(keys)
        self.functions = tuple(function_of(call, schema) for call in calls)
        self.of_nothing = all(function.of_nothing for function in self.functions)
        measures = dict.fromkeys((ALL_ROWS, *(one for each in self.functions for one in each.measures)))
        self.counters: dict[Counters, slice] = {}
        self.width = 0
        for one in measures:
            if isinstance(one, Counters):
                self.counters[one] = slice(self.width, self.width + one.width)
                self.width += one.width
        sums = tuple(one for one in measures if isinstance(one, ExactSum))
        looked = [one for one in measures if isinstance(one, Looked)]
        self.sums = Accumulators(sums) if sums else None
        details = dict.fromkeys([*([self.sums] if self.sums else []), *(one.detail for one in looked)])
        self.details: dict[Detail, int] = {detail: slot for slot, detail in enumerate(details, 1)}
        self.looked = {one: self.details[one.detail] for one in looked}
        self.folded = {slot: each for each, slot in self.details.items() if isinstance(each, Folded)}
        self.key_schema = pa.schema([schema.field(key) for key in keys])
        self.detail_schemas = [pa.schema([*self.key_schema, *each.fields(schema)]) for each in self.details]
        pairs = zip(self.details, self.detail_schemas, strict=True)
        self.ports = (
            Port(self.key_schema, self.width),
            *(Port(fields, detail.width) for detail, fields in pairs),
        )

    @property
    def states(self) -> tuple[StateSpec, ...]:
        """One for each port."""
        totals = StateSpec("", self.key_schema, tuple(range(len(self.keys))), self.width)
        pairs = enumerate(zip(self.details, self.detail_schemas, strict=True), 1)
        return (
            totals,
            *(detail.state(str(slot), schema, len(self.keys)) for slot, (detail, schema) in pairs),
        )

    def combine(self, change: ZSet) -> Flow:
        """What a change adds to each port. Raises `StepAborted` when a number does not fit.

        Without keys the one group is always among the totals, if only with zeros: its row exists even when
        nothing went in.
        """
        if not len(change):
            first = self.ports[0].empty()
            if not self.keys:
                first = ZSet(empty_rows(self.key_schema, 1), np.zeros((1, self.width), np.int64))
            return (first, *(port.empty() for port in self.ports[1:]))
        rows, weights = change.rows, change.weights
        columns = [normalised(rows.column(key)) for key in self.keys]
        keys = batch(columns, self.key_schema, len(change))
        groups = group_rows(keys)
        totals = ZSet(take_rows(keys, groups.first), self._totals(rows, weights, groups))
        details = [detail.combine(rows, weights, groups) for detail in self.details]
        flows = [
            ZSet(batch([*take_rows(totals.rows, group).columns, *values], schema, len(group)), amounts)
            for (group, values, amounts), schema in zip(details, self.detail_schemas, strict=True)
        ]
        if self.keys and not self.details:
            totals = totals.filter(np.asarray(totals.weights.any(axis=1)))
        return (totals, *flows)

    def _totals(self, rows: pa.RecordBatch, weights: Weights, groups: Groups) -> Weights:
        amounts = (amount for measure in self.counters for amount in measure.amounts(rows))
        columns = [
            groups.sum(weights if amount is None else multiply_checked(amount, weights)) for amount in amounts
        ]
        return np.stack(columns, axis=1)

    def values(self, access: Access, groups: Touched, totals: Weights, *, before: bool) -> list[pa.Array]:
        """The value of each function for each group; `totals` are the groups' counters."""
        chunks = [slice(at, at + _CHUNK_GROUPS) for at in range(0, max(1, len(groups)), _CHUNK_GROUPS)]
        parts = [self._values(access, groups.slice(one), totals[one], before=before) for one in chunks]
        return parts[0] if len(parts) == 1 else [pa.concat_arrays(each) for each in zip(*parts, strict=True)]

    def _values(self, access: Access, groups: Touched, totals: Weights, *, before: bool) -> list[pa.Array]:
        found: dict[Measure, Any] = {}
        for counters, at in self.counters.items():
            found[counters] = totals[:, at.start] if counters.width == 1 else totals[:, at]
        if self.sums is not None:
            sums = self.sums.read(access.own(self.details[self.sums]), groups, before=before)
            found.update(zip(self.sums.sums, sums, strict=True))
        for looked, slot in self.looked.items():
            found[looked] = looked.read(access.own(slot), groups, before=before)
        return [
            function.value(*(found[measure] for measure in function.measures)) for function in self.functions
        ]
