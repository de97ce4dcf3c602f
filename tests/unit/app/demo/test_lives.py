"""Rows come, change and go the same way however their events are cut into batches."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

import pyarrow as pa
import pytest

from tidemill.app.demo.chance import Numbers
from tidemill.app.demo.lives import Course, Life, changes
from unit.app.demo.replay import current, replayed

LIFE = Life(changed_after=20, withdrawn_after=30, kept=100, pillars=5)


@dataclass(frozen=True)
class Plain:
    """Rows that say what they are."""

    has_key: bool
    name: str = "plain"
    life: Life = LIFE

    def come(self, events: int) -> int:
        return events // 2

    def rows(self, numbers: Numbers, versions: Numbers) -> pa.Table:
        return pa.table({"n": numbers, "version": versions})


@pytest.mark.parametrize("table", [Plain(has_key=True), Plain(has_key=False)])
@pytest.mark.parametrize("size", [1, 7, 50, 300, 1000])
def test_rows_do_not_depend_on_the_size_of_batches(table: Plain, size: int) -> None:
    moments = [*range(0, 1000, size), 1000]

    assert replayed(table, (0,) if table.has_key else (), moments) == current(table, 1000)


def test_some_rows_change_some_are_withdrawn_and_old_ones_go() -> None:
    held = {int(n): int(version) for n, version in current(Plain(has_key=True), 1000)}

    assert {n for n in held if n < 400} <= set(range(5))
    assert len(held) < 100
    assert max(held) == 499
    assert set(held.values()) == {0, 1}
    assert {held[n] for n in held if n >= 480} == {0}


def test_a_change_has_an_old_row_unless_a_key_tells_which_one_it_is() -> None:
    of_key, grown = changes(Plain(has_key=True), 200, 240)
    of_bag, same = changes(Plain(has_key=False), 200, 240)

    weights = Counter(of_key.column("_weight").to_pylist()), Counter(of_bag.column("_weight").to_pylist())
    changed = weights[1][-1] - weights[0][-1]
    assert grown == same == weights[0][1] - changed - weights[0][-1]
    assert (weights[0][1], changed > 0, weights[0][-1] > 0) == (weights[1][1], True, True)


def test_the_clock_goes_with_the_events() -> None:
    course = Course([Plain(has_key=True)], start_us=60_000_000, history=100, batch=10, event_us=1_000)
    first, second = islice(course, 2)

    assert (first.events, second.events) == (100, 110)
    assert course.clock(100) == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    assert course.clock(110).microsecond == 10_000
    assert first.rows == first.grown["plain"] == current(Plain(has_key=True), 100).total()
