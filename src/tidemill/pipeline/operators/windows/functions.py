"""Which function computes a call."""

from collections.abc import Callable

import pyarrow as pa

from tidemill.pipeline.errors import Refused
from tidemill.pipeline.operators.aggregates.layout import function_of
from tidemill.pipeline.operators.windows.extremes import greatest, least
from tidemill.pipeline.operators.windows.frames import Frames, frames
from tidemill.pipeline.operators.windows.pairs import Grouped
from tidemill.pipeline.operators.windows.partitions import Ordering, Partitions
from tidemill.pipeline.operators.windows.ranks import RANKS
from tidemill.pipeline.operators.windows.totals import adds_up, total
from tidemill.pipeline.operators.windows.values import VALUES, Value
from tidemill.pipeline.plan.node import AggregateCall, WindowCall
from tidemill.pipeline.state.order import check_orderable

Compiled = Callable[[Partitions], pa.Array]
"""Computes the values of a function for all rows."""

EXTREMES: dict[str, Value] = {"Min": least, "Max": greatest}
UNORDERED = {"ListAgg"}
"""What our aggregate puts into an order of its own, where Spark's goes by the order of the window."""


def compile_call(window: WindowCall, schema: pa.Schema, ordering: Ordering) -> Compiled:
    """The function over partitions of rows with this schema. Raises `Refused` if there is none."""
    call = window.call
    if call.function in RANKS:
        return lambda rows: RANKS[call.function](rows, call)
    function = _over_frames(call, schema)
    return lambda rows: function(rows, frames(rows, window.low, window.high, ordering))


def _over_frames(call: AggregateCall, schema: pa.Schema) -> Callable[[Partitions, Frames], pa.Array]:
    if call.function in EXTREMES:
        check_orderable(schema.field(call.columns[0]))
    if call.function in {**VALUES, **EXTREMES}:
        simple = {**VALUES, **EXTREMES}[call.function]
        return lambda rows, seen: simple(rows, seen, call)
    if call.function in UNORDERED:
        raise Refused(f"{call.function} OVER (…) is not supported yet in a view")
    function = function_of(call, schema)
    if adds_up(function):
        return lambda rows, seen: total(rows, seen, function)
    return Grouped.of(call, schema).value
