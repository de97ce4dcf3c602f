"""A table with a column of every type, aggregations over it, and the same in plain Python with fractions."""

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tidemill.pipeline import types
from tidemill.pipeline.plan.node import Aggregate, AggregateCall, Arrange, Combine, Node
from tidemill.pipeline.testing import Bag, Rows, bag, feed, spark
from tidemill.pipeline.testing.bags import canonical
from tidemill.pipeline.zset import ZSet

EXACT = Context(prec=200)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda unscaled: Decimal(unscaled).scaleb(-scale, EXACT))


HUGE = Decimal(10**38 - 1).scaleb(-6, EXACT)
FLOATS = [0.0, -0.0, 1.5, 0.1, -0.1, 1e308, -1e308, 1e-320, 5e-324, 1e16, -1e16, 3.0, 2.0**970]
SPECIAL = [math.nan, math.inf, -math.inf]
ANY_FLOAT = (
    st.sampled_from(FLOATS)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(FLOATS + SPECIAL)
)
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.large_string(), st.sampled_from(["", "a", "ab", "z", "ü", "\U0001f40d"])),
    "double": (pa.float64(), ANY_FLOAT),
    "float": (pa.float32(), st.floats(width=32) | st.sampled_from([0.0, -0.0, 0.1])),
    "flag": (pa.bool_(), st.booleans()),
    "byte": (pa.int8(), st.integers(-128, 127)),
    "int": (pa.int32(), st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)])),
    "long": (pa.int64(), st.sampled_from([0, 1, -1, 2**31, 2**63 - 1, -(2**63)]) | st.integers(-9, 9)),
    "small": (pa.decimal128(7, 2), decimals(7, 2)),
    "medium": (pa.decimal128(18, 0), decimals(18, 0)),
    "large": (pa.decimal128(38, 6), st.sampled_from([HUGE, HUGE.copy_negate()]) | decimals(8, 6)),
    "date": (pa.date32(), st.dates()),
    "time": (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    "bytes": (pa.large_binary(), st.binary(max_size=2)),
    "list": (pa.large_list(pa.field("element", pa.float64())), st.lists(ANY_FLOAT | st.none(), max_size=2)),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
PLACE = {name: place for place, name in enumerate(COLUMNS)}


def call(
    function: str,
    column: str | None = None,
    where: str | None = None,
    mode: str = "TRY",
    *further: str,
) -> AggregateCall:
    kind = None if column is None else SCHEMA.field(column).type
    return AggregateCall(
        function,
        None if column is None else PLACE[column],
        types.to_spark(result_type(function, kind)),
        None if where is None else PLACE[where],
        {"mode": mode},
        tuple(PLACE[name] for name in further) or msgspec.UNSET,
    )


def result_type(function: str, kind: pa.DataType | None) -> pa.DataType:
    if function == "Count":
        return pa.int64()
    assert kind is not None
    if function in ("Min", "Max", "MinBy", "MaxBy"):
        return kind
    if pa.types.is_decimal(kind):
        more = 10 if function == "Sum" else 4
        scale = kind.scale if function == "Sum" else kind.scale + 4
        return pa.decimal128(min(38, kind.precision + more), scale)
    return pa.int64() if function == "Sum" and pa.types.is_integer(kind) else pa.float64()


def aggregation(keys: Sequence[str], calls: Sequence[AggregateCall]) -> tuple[Node, Node, Combine, Aggregate]:
    """The nodes: an input that is kept, and both halves."""
    places = tuple(PLACE[key] for key in keys)
    fields = [SCHEMA.field(key) for key in keys] + [(f"v{i}", each.type) for i, each in enumerate(calls)]
    functions = tuple(calls)
    return (
        feed(SCHEMA),
        Arrange((0,), spark(SCHEMA), key=(0,)),
        Combine((1,), spark(SCHEMA), places, functions),
        Aggregate((2,), spark(pa.schema(fields)), places, functions, spark(SCHEMA)),
    )


def zset(rows: Sequence[dict[str, Any]], weights: Sequence[int] | None = None) -> ZSet:
    arrays = [pa.array([row.get(name) for row in rows], kind) for name, (kind, _) in COLUMNS.items()]
    found = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    return ZSet(found, np.array([1] * len(rows) if weights is None else weights, np.int64))


# The same in plain Python.


def model(keys: Sequence[str], calls: Sequence[AggregateCall]) -> Callable[[Rows], Bag]:
    places = [PLACE[key] for key in keys]

    def answer(rows: Rows) -> Bag:
        groups: dict[Any, Rows] = defaultdict(list)
        if not keys:
            groups[()] = []
        for row, weight in bag(rows).items():
            groups[tuple(row[place] for place in places)].append((row, weight))
        return bag(
            (canonical((*key, *(value(each, members) for each in calls))), 1)
            for key, members in groups.items()
            if not keys or sum(weight for _, weight in members) > 0
        )

    return answer


def value(each: AggregateCall, members: Rows) -> Any:
    chosen = [pair for pair in members if each.filter is None or pair[0][each.filter] is True]
    if each.function in ("MinBy", "MaxBy"):
        return outermost_by(each, chosen)
    if each.argument is None:
        return sum(weight for _, weight in chosen)
    values = [(row[each.argument], weight) for row, weight in chosen if row[each.argument] is not None]
    count = sum(weight for _, weight in values)
    match each.function:
        case "Count":
            return count
        case "Min" | "Max":
            there = [
                one
                for (one,), weight in bag(((one,), weight) for one, weight in values).items()
                if weight > 0
            ]
            outermost = min if each.function == "Min" else max
            return outermost(there, key=rank) if there else None
    if count <= 0:
        return None
    kind = SCHEMA.field(each.argument).type
    if pa.types.is_floating(kind):
        total = float_sum(values)
        return total / count if each.function == "Average" else total
    exact = sum((Fraction(one) * weight for one, weight in values), Fraction(0))
    if pa.types.is_decimal(kind):
        return as_decimal(exact if each.function == "Sum" else exact / count, each.type)
    if each.function == "Average":
        return float(exact) / count
    fits = -(2**63) <= exact < 2**63
    wrapped = (int(exact) + 2**63) % 2**64 - 2**63
    return wrapped if fits or each.options["mode"] == "LEGACY" else None


def outermost_by(each: AggregateCall, chosen: Rows) -> Any:
    value, by = each.columns
    there = bag(((row[by], row[value]), weight) for row, weight in chosen if row[by] is not None)
    outermost = min if each.function == "MinBy" else max
    found = [pair for pair, weight in there.items() if weight > 0]
    return outermost(found, key=rank)[1] if found else None


def rank(one: Any) -> Any:
    match one:
        case None:
            return (0,)
        case "NaN":
            return (2,)
        case tuple():
            return (1, [rank(part) for part in one])
        case _:
            return (1, one)


def float_sum(values: Sequence[tuple[Any, int]]) -> float:
    there = bag(((one,), weight) for one, weight in values)
    plus, minus = there[(math.inf,)] > 0, there[(-math.inf,)] > 0
    if there[("NaN",)] > 0 or (plus and minus):
        return math.nan
    if plus or minus:
        return math.inf if plus else -math.inf
    finite = [
        (Fraction(one), weight) for (one,), weight in there.items() if one not in ("NaN", math.inf, -math.inf)
    ]
    exact = sum((one * weight for one, weight in finite), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def as_decimal(exact: Fraction, kind: pa.DataType) -> Decimal | None:
    """Rounded half up; None if it has too many digits."""
    unscaled = abs(exact) * 10**kind.scale
    whole = math.floor(unscaled + Fraction(1, 2))
    if whole >= 10**kind.precision:
        return None
    return Decimal(whole if exact >= 0 else -whole).scaleb(-kind.scale, EXACT)
