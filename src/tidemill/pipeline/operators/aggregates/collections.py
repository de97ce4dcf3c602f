"""COLLECT_LIST, COLLECT_SET and LISTAGG: the values of a group side by side, in the order of their values.

Spark leaves that order to chance, but for LISTAGG with ORDER BY; what is equal by that comes in the order of
values too.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.operators.aggregates.extremes import Values
from tidemill.pipeline.operators.aggregates.measure import Chosen, Function
from tidemill.pipeline.operators.aggregates.whole import Held, Whole
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.state.order import ASCENDING, Direction


class CollectList(Function):
    """All values as an array, which is empty where there are none."""

    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        skips = call.options.get("ignoreNulls", "true") == "true"
        chosen = Chosen(call.columns if skips else (), call.filter)
        self.measures = (Whole(Values(chosen, call.columns)),)

    def value(self, *found: Any) -> pa.Array:
        held: Held = found[0]
        return listed(held.spread(), self.type)


class CollectSet(CollectList):
    """Each value once."""

    def value(self, *found: Any) -> pa.Array:
        return listed(found[0], self.type)


class ListAgg(Function):
    """Texts one after the other, with a constant between; NULL where there are none.

    Its columns are the text, then what it is ordered by; the option `order` says how, as `directions` reads.
    """

    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        text, *by = call.columns
        delimiter = call.constants[0].value.as_py()
        nothing = b"" if pa.types.is_large_binary(self.type) else ""
        self.delimiter = pa.scalar(delimiter or nothing, self.type)
        kept = Values(Chosen((text,), call.filter), (*by, text))
        self.measures = (Whole(kept, (*directions(call.options.get("order", "")), ASCENDING)),)

    @classmethod
    def takes(cls, *kinds: pa.DataType) -> bool:
        return bool(pa.types.is_large_string(kinds[0]) or pa.types.is_large_binary(kinds[0]))

    def value(self, *found: Any) -> pa.Array:
        held: Held = found[0]
        texts = pc.binary_join(listed(held.spread(), pa.large_list(self.type)), self.delimiter)
        return pc.if_else(pa.array(held.some), texts, pa.scalar(None, self.type))


def listed(held: Held, kind: pa.DataType) -> pa.Array:
    """The values of each group as an array: those of the last column."""
    return pa.LargeListArray.from_arrays(pa.array(held.starts), held.columns[-1], kind)


def directions(order: str) -> tuple[Direction, ...]:
    """From the words of SQL: "desc nulls last, asc nulls first"."""
    parts = [part.split() for part in order.split(",") if part]
    return tuple(Direction(part[0] == "desc", part[-1] == "last") for part in parts)
