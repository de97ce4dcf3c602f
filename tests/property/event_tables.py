"""A table of events that lie close together in time, and random histories of it."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa

from property.changing_tables import (
    CASE,
    KEY,
    Append,
    Column,
    History,
    Row,
    Table,
    by_case,
    changes,
    put,
    some,
)

START = datetime(2024, 3, 10, tzinfo=UTC)


def near(zone: Any) -> Any:
    """Some time in three hours, often at a full minute: where windows end and sessions touch."""

    def value(random: Random) -> datetime | None:
        if random.random() < 0.1:
            return None
        odd = timedelta(microseconds=random.choice([0, 0, 0, 1, -1, 59_999_999]))
        return START.replace(tzinfo=zone) + timedelta(minutes=random.randint(-60, 120)) + odd

    return value


EVENTS = Table(
    "e",
    (
        CASE,
        KEY,
        Column("at", "TIMESTAMP", pa.timestamp("us", "UTC"), near(UTC)),
        Column("wall", "TIMESTAMP_NTZ", pa.timestamp("us"), near(None)),
        Column("v", "INT", pa.int32(), some(*range(10))),
        Column("gap", "STRING", pa.string(), some("5 minutes", "90 seconds", "0 seconds", "-1 minute")),
    ),
)


def events(seed: int, *, cases: int, steps: int) -> History:
    """A random history, one step of which appends nothing. Case 0 holds a third of all rows, of one key."""
    random = Random(seed)
    found = History()
    rows: list[Row] = []
    for step in range(steps):
        parts: list[Any] = [{} for _ in range(random.randint(1, 3))]
        before = by_case(rows)
        for case in random.choices(range(1, cases), k=2 * cases if step != steps // 2 else 0):
            for row, weight in changes(random, EVENTS, case, before.get(case, [])):
                put(parts, random, EVENTS, row, weight, rows)
        for _ in range(cases if step != steps // 2 else 0):
            put(parts, random, EVENTS, (0, "hot", *EVENTS.row(random, 0)[2:]), random.randint(1, 2), rows)
        appends = [Append("apply", {EVENTS.name: EVENTS.arrow(*part[EVENTS.name])}) for part in parts if part]
        found.steps.append(appends)
        found.bags.append({EVENTS.name: list(rows)})
    return found
