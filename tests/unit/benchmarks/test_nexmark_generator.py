"""Events of Nexmark: in the published proportions, and the same however a range is cut."""

import itertools
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from nexmark.catalog import QUERIES, TABLES, reads
from nexmark.generator import Events, Nexmark, side_input

EVENTS = 20_000


@pytest.fixture(scope="module")
def events() -> Events:
    return Nexmark().events(0, EVENTS)


def numbers(table: pa.Table, column: str) -> np.ndarray:
    found: np.ndarray = table[column].to_numpy()
    return found


def test_of_fifty_events_one_is_a_person_and_three_are_auctions(events: Events) -> None:
    assert {name: table.num_rows * 50 / EVENTS for name, table in events.items()} == {
        "person": 1,
        "auction": 3,
        "bid": 46,
    }


@pytest.mark.parametrize("cuts", [(0, 7, 8, 1234, EVENTS), (0, 49, 50, 51, 19_999, EVENTS)])
def test_a_range_has_the_same_rows_however_it_is_cut(events: Events, cuts: tuple[int, ...]) -> None:
    market = Nexmark()
    pieces = [market.events(first, last) for first, last in itertools.pairwise(cuts)]

    for name, table in events.items():
        assert pa.concat_tables([piece[name] for piece in pieces]).combine_chunks() == table


def test_another_seed_has_other_rows(events: Events) -> None:
    other = Nexmark(seed=2).events(0, EVENTS)

    for column in ("auction", "bidder", "price", "url", "extra"):
        assert other["bid"][column] != events["bid"][column]


def test_ids_go_on_from_a_thousand_and_few_refer_to_what_is_yet_to_come(events: Events) -> None:
    people, auctions, bids = events["person"], events["auction"], events["bid"]

    assert numbers(people, "id").tolist() == list(range(1000, 1000 + people.num_rows))
    assert numbers(auctions, "id").tolist() == list(range(1000, 1000 + auctions.num_rows))
    for table, column, known in (
        (bids, "auction", auctions),
        (bids, "bidder", people),
        (auctions, "seller", people),
    ):
        assert numbers(table, column).min() >= 1000
        assert numbers(table, column).max() <= numbers(known, "id").max() + 10


def test_what_is_hot_gets_its_share(events: Events) -> None:
    bids, auctions = events["bid"], events["auction"]
    share = {
        "auction": np.mean(numbers(bids, "auction") % 100 == 0),
        "bidder": np.mean(numbers(bids, "bidder") % 100 == 1),
        "seller": np.mean(numbers(auctions, "seller") % 100 == 0),
        "channel": np.mean(~np.asarray(pc.starts_with(bids["channel"], "channel-"))),
    }

    assert share == pytest.approx(
        {"auction": 1 / 2, "bidder": 3 / 4, "seller": 3 / 4, "channel": 1 / 2}, abs=0.03
    )


def test_prices_are_as_many_in_each_order_of_magnitude(events: Events) -> None:
    counts, _ = np.histogram(np.log10(numbers(events["bid"], "price")), bins=np.arange(2, 9))

    assert counts / counts.sum() == pytest.approx(np.full(6, 1 / 6), abs=0.02)


def test_rows_have_the_published_sizes_on_average(events: Events) -> None:
    def size(table: pa.Table, without: tuple[str, ...] = ()) -> float:
        text = [
            name for name in table.column_names if table[name].type == pa.string() and name not in without
        ]
        return sum(float(pc.mean(pc.binary_length(table[name])).as_py()) for name in text)

    assert size(events["person"]) + 8 == pytest.approx(200, abs=5)
    assert size(events["auction"]) + 48 == pytest.approx(500, abs=10)
    assert size(events["bid"], ("channel", "url")) + 32 == pytest.approx(100, abs=2)


def test_times_follow_the_rate_and_come_out_of_order_within_a_group() -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    bids = Nexmark(rate=100, start=start, out_of_order=10).events(0, 7000)["bid"]
    late = (numbers(bids, "arrived") - numbers(bids, "date_time")) / np.timedelta64(1, "ms")

    assert bids["arrived"][-1].as_py() - start < timedelta(seconds=70)
    assert np.all(np.diff(numbers(bids, "arrived")) >= np.timedelta64(0, "ms"))
    assert late.max() == 60
    assert late.min() == -60


def test_every_query_reads_tables_that_there_are() -> None:
    assert set(TABLES) == {*Nexmark().events(0, 1), "side_input"}
    assert list(QUERIES) == [f"q{number}" for number in range(24)]
    assert {name for query in QUERIES.values() for name in reads(query)} == set(TABLES)
    assert all(reads(query) for query in QUERIES.values())
    assert side_input().num_rows == 10_000
