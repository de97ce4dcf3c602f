"""QueueBalance: what the calendar says, and how queues share it."""

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.tasks.balance import (
    SILENT_S,
    Balance,
    Load,
    Report,
    Settings,
    health,
    read_balance,
    share,
    split,
    total_at,
)
from tidemill.tasks.errors import BadTask

WEEK = {"* 07:00": 5, "* 19:00": 10, "1 07:00": 6, "5 19:00": 15, "0 12:30": 20}


@pytest.mark.parametrize(
    ("local", "total"),
    [
        ("2027-01-05 07:00", 5),  # Tuesday
        ("2027-01-05 18:59", 5),
        ("2027-01-05 19:00", 10),
        ("2027-01-06 06:59", 10),  # what began the evening before
        ("2027-01-04 07:00", 6),  # Monday stands before every day
        ("2027-01-04 19:00", 10),  # but at that time only
        ("2027-01-08 19:00", 15),  # Friday
        ("2027-01-09 06:59", 15),
        ("2027-01-09 07:00", 5),
        ("2027-01-10 12:29", 5),  # Sunday
        ("2027-01-10 12:30", 20),
        ("2027-01-10 06:59", 10),  # Sunday begins the week; before its first entry it is Saturday's last
    ],
)
def test_the_latest_entry_of_the_week_holds(local: str, total: int) -> None:
    assert total_at(WEEK, datetime.fromisoformat(local)) == total


def test_before_the_first_entry_of_the_week_the_last_one_holds() -> None:
    assert total_at({"2 10:00": 1, "4 10:00": 2}, datetime.fromisoformat("2027-01-04 23:00")) == 2
    assert total_at({"2 10:00": 1, "4 10:00": 2}, datetime.fromisoformat("2027-01-10 00:00")) == 2


def test_within_an_hour_the_minute_counts() -> None:
    assert total_at({"* 06:00": 1, "* 07:30": 2}, datetime.fromisoformat("2027-01-04 07:15")) == 1


def test_without_entries_there_is_no_total() -> None:
    assert total_at({}, datetime.fromisoformat("2027-01-04 07:15")) is None


def loads(*sizes: tuple[int, int]) -> list[dict[str, Load]]:
    """A group of one queue for each (queued, running), named by number."""
    return [{str(at): Load(queued, running)} for at, (queued, running) in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "threads"),
    [
        # All ten are the base's, and nothing else waits.
        ([(50, 10), (0, 0), (0, 0)], [10, 0, 0]),
        # Four come for the second group: the base is to shrink to six, and nothing can begin yet.
        ([(50, 10), (4, 0), (0, 0)], [6, 0, 0]),
        # Two of the base have ended, and three come for the third group.
        ([(50, 8), (4, 0), (3, 0)], [3, 2, 0]),
        # Two more have.
        ([(50, 6), (2, 2), (3, 0)], [3, 4, 0]),
        # One of the second group has ended, and has no successor.
        ([(50, 6), (0, 3), (3, 0)], [4, 3, 1]),
        # All of the base's have ended.
        ([(50, 0), (0, 3), (3, 0)], [4, 3, 3]),
    ],
)
def test_later_groups_take_over_from_the_base_as_its_tasks_end(
    sizes: list[tuple[int, int]], threads: list[int]
) -> None:
    assert list(share(10, loads(*sizes)).values()) == threads


def test_within_a_group_all_get_the_same_as_far_as_they_have_a_use_for_it() -> None:
    group = {"a": Load(3, 0), "b": Load(50, 0), "c": Load(50, 0), "d": Load(0, 0)}

    assert share(12, [group]) == {"a": 3, "b": 5, "c": 4, "d": 0}


def test_one_that_runs_too_many_gives_way_as_they_end() -> None:
    assert share(10, [{"a": Load(50, 10), "b": Load(50, 0)}]) == {"a": 5, "b": 0}
    assert share(10, [{"a": Load(50, 7), "b": Load(50, 0)}]) == {"a": 5, "b": 3}
    assert share(10, [{"a": Load(50, 5), "b": Load(50, 3)}]) == {"a": 5, "b": 5}


def test_what_becomes_free_goes_to_later_groups_before_the_base() -> None:
    groups = [{"a": Load(50, 8), "b": Load(50, 0)}, {"express": Load(4, 0)}]

    assert share(10, groups) == {"a": 3, "b": 0, "express": 2}


def test_a_smaller_total_stops_nothing_and_begins_nothing() -> None:
    assert share(4, [{"a": Load(5, 6)}, {"b": Load(5, 3)}]) == {"a": 0, "b": 3}


def test_there_may_be_nothing_to_share() -> None:
    assert share(10, []) == {}
    assert share(0, loads((5, 0), (5, 0))) == {"0": 0, "1": 0}


SIZES = st.builds(Load, st.integers(0, 40), st.integers(0, 15))
IDLE = st.builds(Load, st.integers(0, 40), st.just(0))


def grouped(sizes: st.SearchStrategy[Load]) -> st.SearchStrategy[list[dict[str, Load]]]:
    """Up to four groups of up to four queues, each of its own name."""
    groups = st.lists(st.lists(sizes, min_size=1, max_size=4), min_size=1, max_size=4)
    return groups.map(
        lambda found: [
            {f"{at}.{place}": load for place, load in enumerate(group)} for at, group in enumerate(found)
        ]
    )


def flat(groups: list[dict[str, Load]]) -> dict[str, Load]:
    return {name: load for group in groups for name, load in group.items()}


@given(st.integers(0, 60), grouped(SIZES))
def test_nobody_gets_more_than_there_is_or_than_it_can_use(total: int, groups: list[dict[str, Load]]) -> None:
    threads = share(total, groups)

    assert threads.keys() == flat(groups).keys()
    assert sum(threads.values()) <= total
    assert all(0 <= threads[name] <= load.use for name, load in flat(groups).items())


@given(st.integers(0, 60), grouped(SIZES))
def test_nothing_is_begun_beyond_the_total_by_those_that_drain(
    total: int, groups: list[dict[str, Load]]
) -> None:
    queues = flat(groups)
    threads = share(total, groups)
    most = sum(max(threads[name], load.running) for name, load in queues.items())

    assert most <= max(total, sum(load.running for load in queues.values()))


@given(st.integers(0, 60), grouped(IDLE))
def test_while_nothing_runs_all_is_given_away_that_can_be_used(
    total: int, groups: list[dict[str, Load]]
) -> None:
    uses = [sum(load.use for load in group.values()) for group in groups]
    threads = share(total, groups)
    given = [sum(threads[name] for name in group) for group in groups]

    left = min(total, sum(uses[1:]))
    assert given[0] == min(total - left, uses[0])
    for at in range(1, len(groups)):
        assert given[at] == min(left, uses[at])
        left -= given[at]


@given(st.integers(0, 60), grouped(IDLE))
def test_while_nothing_runs_the_hungry_of_a_group_differ_by_one_at_most(
    total: int, groups: list[dict[str, Load]]
) -> None:
    threads = share(total, groups)
    for group in groups:
        hungry = [threads[name] for name, load in group.items() if threads[name] < load.use]
        others = [threads[name] for name in group]
        assert max(others) <= min(hungry, default=max(others)) + 1
        assert hungry == sorted(hungry, reverse=True)


@given(st.integers(1, 30), grouped(SIZES), st.randoms(use_true_random=False))
def test_as_tasks_end_and_begin_all_come_to_their_share(
    total: int, groups: list[dict[str, Load]], random: Any
) -> None:
    """Every queue has enough to do, and in each round each ends some of what it runs."""
    running = {name: load.running for name, load in flat(groups).items()}
    wanted = share(total, [{name: Load(1000, 0) for name in group} for group in groups])
    assert sum(wanted.values()) == total

    for _ in range(20):
        threads = share(total, [{name: Load(1000, running[name]) for name in group} for group in groups])
        begun = {name: max(n, threads[name]) for name, n in running.items()}
        assert sum(begun.values()) <= max(total, sum(running.values()))
        running = {name: n - random.randint(min(n, 1), n) for name, n in begun.items()}

    assert share(total, [{name: Load(1000, running[name]) for name in g} for g in groups]) == wanted


@given(st.integers(0, 100), st.dictionaries(st.text(max_size=2), st.integers(0, 30), max_size=6))
def test_what_is_split_is_all_there_is_or_all_that_can_be_used(amount: int, uses: dict[str, int]) -> None:
    parts = split(amount, uses)

    assert parts.keys() == uses.keys()
    assert sum(parts.values()) == min(amount, sum(uses.values()))


NOW = 1_798_804_800_000
KNOWN = {"bulk", "mail", "express"}
GOOD: dict[str, Any] = {"max_tasks": {"* 07:00": 5}, "queues": [["bulk", "mail"], ["express"]]}


def test_what_is_sent_is_read_as_it_is() -> None:
    read = read_balance({**GOOD, "disabled": NOW // 1000 + 60, "zone": "Europe/Berlin"}, KNOWN, NOW)

    assert read.max_tasks == {"* 07:00": 5}
    assert read.queues == (("bulk", "mail"), ("express",))
    assert (read.disabled, read.zone) == (NOW // 1000 + 60, "Europe/Berlin")


def test_totals_may_be_text_and_no_pause_may_be_nought() -> None:
    read = read_balance({"max_tasks": {"6 19:00": "15"}, "queues": [], "disabled": 0}, KNOWN, NOW)

    assert (read.max_tasks, read.disabled, read.zone) == ({"6 19:00": 15}, None, "UTC")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "Expected `object`"),
        ({"queues": []}, "`max_tasks` is missing"),
        ({"max_tasks": {}}, "`queues` is missing"),
        ({**GOOD, "foo": "bar"}, "foo"),
        ({**GOOD, "revision": 3}, "`revision` is not yours to set"),
        ({**GOOD, "queues": [["bulk", "nightly"]]}, "there is no queue 'nightly'"),
        ({**GOOD, "queues": [["bulk"], ["bulk"]]}, "queue 'bulk' is named twice"),
        ({**GOOD, "queues": [["bulk"], []]}, "a group has no queues"),
        ({**GOOD, "queues": ["bulk"]}, "queues"),
        ({**GOOD, "max_tasks": {"7 07:00": 5}}, "'7 07:00' is not like '\\* 07:00'"),
        ({**GOOD, "max_tasks": {"* 24:00": 5}}, "'\\* 24:00' is not like"),
        ({**GOOD, "max_tasks": {"* 7:00": 5}}, "'\\* 7:00' is not like"),
        ({**GOOD, "max_tasks": {"* 07:00": -1}}, "-1 tasks; 0 to 1,000,000"),
        ({**GOOD, "max_tasks": {"* 07:00": "many"}}, "Expected `int`"),
        ({**GOOD, "disabled": NOW // 1000}, "`disabled` is no epoch second that is still to come"),
        ({**GOOD, "disabled": NOW}, "`disabled` is no epoch second"),
        ({**GOOD, "zone": "Berlin"}, "there is no time zone 'Berlin'"),
    ],
)
def test_what_cannot_be_done_is_refused_in_disbatchs_words_and_with_the_reason(
    values: Any, reason: str
) -> None:
    with pytest.raises(BadTask, match=f"^failed: invalid json passed: .*{reason}"):
        read_balance(values, KNOWN, NOW)


ON = Settings(enabled=True)
WANTED = Balance(queues=(("bulk",),))
SAID = Report("WARNING", "QueueBalance is running, though", NOW // 1000 - 30)


@pytest.mark.parametrize(
    ("settings", "balance", "report", "status", "message"),
    [
        (Settings(), WANTED, None, "OK", "QueueBalance is not enabled"),
        (ON, Balance(), None, "OK", "QueueBalance has no queues to balance"),
        (ON, WANTED, None, "CRITICAL", "QueueBalance has not run yet"),
        (ON, WANTED, SAID, "WARNING", SAID.message),
        (
            ON,
            WANTED,
            Report("OK", "QueueBalance is running", NOW // 1000 - SILENT_S - 1),
            "CRITICAL",
            "QueueBalance has been silent for 61 s",
        ),
    ],
)
def test_it_fares_as_it_says_unless_it_is_silent(
    settings: Settings, balance: Balance, report: Report | None, status: str, message: str
) -> None:
    found = health(settings, balance, report, NOW)

    assert (found.status, found.message) == (status, message)
