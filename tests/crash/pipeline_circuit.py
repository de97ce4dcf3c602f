"""A circuit without SQL, small and with a node of most kinds, and rows to feed it.

orders (key id) ─┬─ by customer ─ join ─────── pairs ─ count, max by tag ─── tags (added late)
events ──────────┼────────────────┘
                 └─ sum, max, float sum by customer ─ totals ─ distinct ─ levels
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline import types
from tidemill.pipeline.engine import Plan
from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.plan.expression import Column
from tidemill.pipeline.plan.node import (
    Aggregate,
    AggregateCall,
    AnyNode,
    Arrange,
    Combine,
    Distinct,
    Exchange,
    Join,
    Select,
    Source,
    View,
)
from tidemill.pipeline.state.merges import YOUNG_ROWS
from tidemill.pipeline.zset import ZSet

CUSTOMERS = 13
TAGS = 4
BULK = YOUNG_ROWS + 1


def _schema(**columns: str) -> dict[str, Any]:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()
    ]
    return {"type": "struct", "fields": fields}


_ORDERS = _schema(id="long", customer="long", qty="long", amount="double")
_EVENTS = _schema(customer="long", tag="string")
_PAIRS = _schema(id="long", customer="long", qty="long", amount="double", customer2="long", tag="string")
_TOTALS = _schema(customer="long", rows="long", qty="long", most="long", amount="double")
_LEVELS = _schema(most="long")
_TAGS = _schema(tag="string", rows="long", most="double")

_TOTAL_OF = (
    AggregateCall("Count", None, "long"),
    AggregateCall("Sum", 2, "long", options={"mode": "ANSI"}),
    AggregateCall("Max", 2, "long"),
    AggregateCall("Sum", 3, "double"),
)
_TAG_OF = (AggregateCall("Count", None, "long"), AggregateCall("Max", 3, "double"))

ORDERS = Source((), _ORDERS, "orders", (0,), (0,))
EVENTS = Source((), _EVENTS, "events", (), (0,))

_BASE: tuple[AnyNode, ...] = (
    ORDERS,
    EVENTS,
    Exchange((0,), _ORDERS, (1,)),
    Arrange((2,), _ORDERS, (1,)),
    Join((3, 1), _PAIRS, None),
    View((4,), _PAIRS, "pairs"),
    Combine((0,), _ORDERS, (1,), _TOTAL_OF),
    Exchange((6,), _ORDERS, (0,)),
    Aggregate((7,), _TOTALS, (1,), _TOTAL_OF, _ORDERS),
    View((8,), _TOTALS, "totals"),
    Select((9,), _LEVELS, None, (Column("long", 3),)),
    Exchange((10,), _LEVELS, (0,)),
    Distinct((11,), _LEVELS),
    View((12,), _LEVELS, "levels"),
)
_LATE: tuple[AnyNode, ...] = (
    Combine((5,), _PAIRS, (5,), _TAG_OF),
    Exchange((14,), _PAIRS, (0,)),
    Aggregate((15,), _TAGS, (5,), _TAG_OF, _PAIRS),
    View((16,), _TAGS, "tags"),
)

PLANS = (Plan(Circuit(_BASE)), Plan(Circuit(_BASE + _LATE)))
FRESH = (
    frozenset(PLANS[0].circuit.fingerprints),
    frozenset(PLANS[1].circuit.fingerprints[len(_BASE) :]),
)


def change(source: Source, rows: Sequence[tuple[Any, ...]], weights: Sequence[int]) -> ZSet:
    schema = types.schema_from_spark(source.spark_schema)
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return ZSet(pa.RecordBatch.from_arrays(arrays, schema=schema), np.array(weights, np.int64))


def orders(number: int, count: int = 40) -> ZSet:
    """The n-th append: new orders, some that replace older ones, and from the second on two deletions."""
    ids = range(number * 25, number * 25 + count)
    rows: list[tuple[Any, ...]] = [
        (at, (at * 7 + number) % CUSTOMERS, at % 5 + number, at * number * 0.1) for at in ids
    ]
    weights = [1] * count
    if number:
        rows += [(at, None, None, None) for at in (number * 25 - 1, number * 25 - 3)]
        weights += [-1, -1]
    return change(ORDERS, rows, weights)


def events(number: int, count: int = 20) -> ZSet:
    """The n-th append: new events, and from the second on some of the one before are taken back."""
    rows = [((at * 3 + number) % CUSTOMERS, f"t{at % TAGS}") for at in range(count)]
    weights = [1] * count
    if number:
        rows += [((at * 3 + number - 1) % CUSTOMERS, f"t{at % TAGS}") for at in range(0, count, 3)]
        weights += [-1] * len(range(0, count, 3))
    return change(EVENTS, rows, weights)


def one_event(number: int) -> ZSet:
    return change(EVENTS, [(number % CUSTOMERS, f"t{number % TAGS}")], [1])


def many_events(number: int) -> ZSet:
    """So many, of customers without orders, that a step leaves them to be merged beside the steps."""
    first = 1000 + number * BULK
    rows = types.schema_from_spark(_EVENTS)
    customers = pa.array(np.arange(first, first + BULK))
    batch = pa.RecordBatch.from_arrays([customers, pa.nulls(BULK, rows.field(1).type)], schema=rows)
    return ZSet(batch, np.ones(BULK, np.int64))


def missing_event() -> ZSet:
    """Takes back what was never there: the step that has it is aborted."""
    return change(EVENTS, [(CUSTOMERS + 1, "never")], [-1])
