"""The rows of the auction house fit its script, its people have auctions to bid for, and its time goes on."""

from dataclasses import replace
from itertools import islice

import pyarrow.compute as pc
import pytest

from tidemill.app.demo.auctions import BATCH, EVENT_US, HISTORY, SCRIPT, Kind, house
from tidemill.app.demo.lives import Batch, Life
from tidemill.sql.statements import CreateTable, CreateView, parse
from unit.app.demo.replay import current, replayed

START_US = 1_700_000_000_000_000
KINDS = house(START_US).tables


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    return list(islice(house(START_US), 3))


@pytest.mark.parametrize("at", range(3))
def test_the_changes_of_each_table_are_possible(at: int) -> None:
    found = KINDS[at]
    assert isinstance(found, Kind)
    kind = replace(found, life=Life(changed_after=20, withdrawn_after=30, kept=100))
    events = 50 * 300 // kind.share

    assert replayed(kind, (0,) if kind.has_key else (), [*range(0, events, events // 40), events]) == current(
        kind, events
    )


def test_the_tables_are_those_of_the_script(batches: list[Batch]) -> None:
    statements = parse(SCRIPT.read_text(encoding="utf-8"))
    columns = {
        one.name: [text.split()[0] for text in one.columns]
        for one in statements
        if isinstance(one, CreateTable)
    }

    for batch in batches:
        assert {name: frame.column_names[:-1] for name, frame in batch.frames.items()} == columns
    assert 4 <= sum(isinstance(one, CreateView) for one in statements) <= 6


def test_thousands_of_rows_come_at_once_and_some_change_or_go(batches: list[Batch]) -> None:
    history, batch, _ = batches
    weights = batch.frames["bids"].column("_weight").to_pylist()

    assert (history.events, batch.events) == (HISTORY, HISTORY + BATCH)
    assert sum(history.grown.values()) > 0.9 * HISTORY
    assert batch.rows > BATCH
    assert weights.count(-1) > 100
    assert batch.frames["people"].num_rows > batch.grown["people"]


def test_bids_are_for_auctions_by_people_that_there_were(batches: list[Batch]) -> None:
    people, auctions, _ = KINDS
    references = {"auction": ("bids", auctions), "bidder": ("bids", people), "seller": ("auctions", people)}

    for batch in batches:
        for column, (table, other) in references.items():
            numbers = batch.frames[table][column]
            assert pc.max(numbers).as_py() < other.come(batch.events)
            assert pc.min(numbers).as_py() >= 0
            assert pc.count_distinct(numbers).as_py() > 20


def test_the_last_bid_comes_as_the_clock_says(batches: list[Batch]) -> None:
    course = house(START_US)
    for batch in batches:
        latest = pc.max(batch.frames["bids"]["at"]).as_py()
        assert 0 <= (course.clock(batch.events) - latest).total_seconds() * 1e6 < 3 * EVENT_US


def test_the_same_rows_come_each_time(batches: list[Batch]) -> None:
    again = list(islice(house(START_US), 3))

    assert [batch.frames for batch in again] == [batch.frames for batch in batches]
