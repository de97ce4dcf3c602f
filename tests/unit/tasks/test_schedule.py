"""Schedules: which moments a cron line names, and which of them are due."""

from datetime import UTC, datetime
from itertools import islice, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tidemill.tasks.errors import BadTask
from tidemill.tasks.schedule import (
    CATCH_UP_MOST,
    COUNTED_MOST,
    Missed,
    Schedule,
    check_cron,
    due,
    moments,
    next_runs,
    order_for,
    read_schedule,
    run_key,
)

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def ms(text: str) -> int:
    """An instant, told in UTC."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def shown(moment: int) -> str:
    return f"{datetime.fromtimestamp(moment / 1000, UTC):%m-%d %H:%M}"


def schedule(cron: str, zone: str = "UTC", *, last: int = 0, missed: Missed = "catch_up") -> Schedule:
    return Schedule(name="s", cron=cron, queue="q", zone=zone, last=last, missed=missed)


BERLIN_SPRING = "2027-03-28 00:10"  # 01:10; at 02:00 clocks go on to 03:00
BERLIN_AUTUMN = "2027-10-30 23:10"  # 01:10; at 03:00 clocks go back to 02:00
NEW_YORK_SPRING = "2027-03-14 06:10"  # 01:10; at 02:00 clocks go on to 03:00
NEW_YORK_AUTUMN = "2027-11-07 04:10"  # 00:10; at 02:00 clocks go back to 01:00


@pytest.mark.parametrize(
    ("zone", "after", "cron", "expected"),
    [
        # A fixed time that is left out comes when the gap is over, and once, however many are left out.
        ("Europe/Berlin", BERLIN_SPRING, "30 2 * * *", ["03-28 01:00", "03-29 00:30"]),
        ("Europe/Berlin", BERLIN_SPRING, "0,20,40 2 * * *", ["03-28 01:00", "03-29 00:00"]),
        ("Europe/Berlin", BERLIN_SPRING, "30 2,3 * * *", ["03-28 01:00", "03-28 01:30", "03-29 00:30"]),
        ("America/New_York", NEW_YORK_SPRING, "30 2 * * *", ["03-14 07:00", "03-15 06:30"]),
        # One that is repeated comes the first time only.
        ("Europe/Berlin", BERLIN_AUTUMN, "30 2 * * *", ["10-31 00:30", "11-01 01:30"]),
        ("Europe/Berlin", BERLIN_AUTUMN, "0 2,3 * * *", ["10-31 00:00", "10-31 02:00", "11-01 01:00"]),
        ("America/New_York", NEW_YORK_AUTUMN, "30 1 * * *", ["11-07 05:30", "11-08 06:30"]),
        # What goes by the hour or the minute keeps its pace.
        ("Europe/Berlin", BERLIN_SPRING, "*/30 * * * *", ["03-28 00:30", "03-28 01:00", "03-28 01:30"]),
        ("Europe/Berlin", BERLIN_SPRING, "0 */2 * * *", ["03-28 02:00", "03-28 04:00"]),
        ("Europe/Berlin", BERLIN_AUTUMN, "15 * * * *", ["10-30 23:15", "10-31 00:15", "10-31 01:15"]),
        (
            "Europe/Berlin",
            BERLIN_AUTUMN,
            "*/30 2 * * *",
            ["10-31 00:00", "10-31 00:30", "10-31 01:00", "10-31 01:30", "11-01 01:00"],
        ),
        ("America/New_York", NEW_YORK_SPRING, "0 * * * *", ["03-14 07:00", "03-14 08:00"]),
        ("America/New_York", NEW_YORK_AUTUMN, "0 * * * *", ["11-07 05:00", "11-07 06:00", "11-07 07:00"]),
        # Elsewhere clocks do not change.
        ("UTC", BERLIN_SPRING, "30 2 * * *", ["03-28 02:30", "03-29 02:30"]),
        ("Asia/Kathmandu", BERLIN_SPRING, "0 0 * * 1", ["03-28 18:15", "04-04 18:15"]),
    ],
)
def test_clocks_change_as_for_debians_cron(zone: str, after: str, cron: str, expected: list[str]) -> None:
    found = moments(schedule(cron, zone), ms(after))

    assert [shown(moment) for moment in islice(found, len(expected))] == expected


def test_what_came_in_the_first_of_two_equal_hours_does_not_come_in_the_second() -> None:
    second = ms("2027-10-31 01:10")  # 02:10 for the second time

    assert shown(next(moments(schedule("30 2 * * *", "Europe/Berlin"), second))) == "11-01 01:30"


CRONS = st.builds(
    "{} {} * * {}".format,
    st.sampled_from(["*", "*/20", "0", "30", "15,45", "59"]),
    st.sampled_from(["*", "*/2", "*/3", "0", "1", "2", "2,3", "1-4", "23"]),
    st.sampled_from(["*", "0", "1-5"]),
)
ZONES = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/New_York", "America/Havana", "Australia/Lord_Howe", "Asia/Kathmandu"]
)
STARTS = st.builds(
    lambda day, minute: ms(day) + minute * MINUTE,
    st.sampled_from(["2027-03-13", "2027-03-27", "2027-04-03", "2027-10-02", "2027-10-30", "2027-11-06"]),
    st.integers(0, 2 * 24 * 60),
)


@given(CRONS, ZONES, STARTS, st.integers(0, 2 * DAY))
def test_moments_do_not_depend_on_where_one_begins_to_look(
    cron: str, zone: str, start: int, later: int
) -> None:
    found = schedule(cron, zone)
    end = start + 3 * DAY
    early = list(takewhile(lambda moment: moment <= end, moments(found, start)))
    late = list(takewhile(lambda moment: moment <= end, moments(found, start + later)))

    assert late == [moment for moment in early if moment > start + later]
    assert early == sorted(set(early))


@given(CRONS, ZONES, STARTS, st.lists(st.integers(1, 5 * HOUR), min_size=1, max_size=8))
def test_each_moment_is_due_once_however_often_one_looks(
    cron: str, zone: str, start: int, pauses: list[int]
) -> None:
    seen: list[int] = []
    now, found = start, schedule(cron, zone, last=start)
    for pause in pauses:
        now += pause
        run, found = due(found, now)
        seen += run

    assert len(seen) + found.dropped == len(list(takewhile(lambda at: at <= now, moments(found, start))))
    assert seen == sorted(set(seen))
    assert found.runs == len(seen)


def test_before_its_next_moment_nothing_is_due_and_nothing_changes() -> None:
    waiting = schedule("0 * * * *", last=ms("2027-01-01 12:00"))

    assert due(waiting, ms("2027-01-01 12:59:59")) == ((), waiting)


def test_a_moment_is_due_from_its_first_millisecond_on() -> None:
    run, after = due(schedule("0 * * * *", last=ms("2027-01-01 12:30")), ms("2027-01-01 13:00"))

    assert run == (ms("2027-01-01 13:00"),)
    assert (after.last, after.runs, after.dropped) == (ms("2027-01-01 13:00"), 1, 0)


def test_each_of_the_missed_is_caught_up() -> None:
    run, after = due(schedule("0 * * * *", last=ms("2027-01-01 12:00")), ms("2027-01-01 16:20"))

    assert [shown(moment) for moment in run] == ["01-01 13:00", "01-01 14:00", "01-01 15:00", "01-01 16:00"]
    assert (after.last, after.runs, after.dropped) == (run[-1], 4, 0)


def test_of_too_many_missed_the_oldest_are_dropped_and_counted() -> None:
    run, after = due(schedule("* * * * *", last=ms("2027-01-01 12:00")), ms("2027-01-01 17:00"))

    assert (len(run), shown(run[0]), shown(run[-1])) == (CATCH_UP_MOST, "01-01 15:21", "01-01 17:00")
    assert (after.last, after.runs, after.dropped) == (run[-1], 100, 200)


def test_what_was_missed_for_long_is_skipped_if_so_wanted() -> None:
    wanted = schedule("0 * * * *", last=ms("2027-01-01 12:00"), missed="skip")
    run, after = due(wanted, ms("2027-01-01 16:20"))

    assert run == ()
    assert (shown(after.last), after.runs, after.dropped) == ("01-01 16:00", 0, 4)


def test_what_is_late_by_less_than_the_grace_is_not_skipped() -> None:
    wanted = schedule("0 * * * *", last=ms("2027-01-01 12:00"), missed="skip")
    run, after = due(wanted, ms("2027-01-01 16:01"))

    assert [shown(moment) for moment in run] == ["01-01 16:00"]
    assert (after.runs, after.dropped) == (1, 3)


def test_a_rare_schedule_is_caught_up_after_years() -> None:
    run, after = due(schedule("0 0 1 1 *", last=ms("2027-06-01")), ms("2031-06-01"))

    assert run == tuple(ms(f"{year}-01-01") for year in (2028, 2029, 2030, 2031))
    assert after.dropped == 0


def test_an_absence_of_years_is_not_counted_to_the_minute() -> None:
    run, after = due(schedule("* * * * *", last=ms("2027-01-01")), ms("2037-01-01"))

    assert (len(run), run[-1]) == (CATCH_UP_MOST, ms("2037-01-01"))
    assert COUNTED_MOST <= after.dropped + after.runs < 3 * COUNTED_MOST


def test_nothing_is_due_while_paused() -> None:
    paused = replace(schedule("* * * * *", last=ms("2027-01-01")), paused=True)

    assert due(paused, ms("2027-01-02")) == ((), paused)
    assert next_runs(paused, ms("2027-01-02"), 3) == []


def test_a_clock_that_goes_back_brings_nothing_twice() -> None:
    run, after = due(schedule("*/10 * * * *", last=ms("2027-01-01 12:00")), ms("2027-01-01 12:30"))
    assert len(run) == 3

    assert due(after, ms("2027-01-01 12:05")) == ((), after)
    assert [shown(moment) for moment in next_runs(after, ms("2027-01-01 12:05"), 1)] == ["01-01 12:40"]
    assert due(after, ms("2027-01-01 12:40"))[0] == (ms("2027-01-01 12:40"),)


def test_a_clock_that_jumps_ahead_and_back_runs_what_it_passed_once() -> None:
    ahead, after = due(schedule("0 * * * *", last=ms("2027-01-01 12:00")), ms("2027-01-01 15:30"))
    back, after = due(after, ms("2027-01-01 13:30"))
    again, _ = due(after, ms("2027-01-01 16:00"))

    assert [shown(moment) for moment in (*ahead, *back, *again)] == [
        "01-01 13:00",
        "01-01 14:00",
        "01-01 15:00",
        "01-01 16:00",
    ]


def test_the_next_runs_are_told() -> None:
    found = next_runs(schedule("30 2 * * 1-5", "Europe/Berlin"), ms("2027-01-01 00:00"), 3)

    assert [shown(moment) for moment in found] == ["01-01 01:30", "01-04 01:30", "01-05 01:30"]


@pytest.mark.parametrize("n", [0, -1, 1001])
def test_too_many_or_no_next_runs_are_refused(n: int) -> None:
    with pytest.raises(BadTask, match="1 to 1,000"):
        next_runs(schedule("* * * * *"), 0, n)


def test_a_run_is_named_after_schedule_and_moment() -> None:
    named = replace(schedule("* * * * *"), params={"a": 1}, priority=3, description="d")
    order = order_for(named, run_key(named, ms("2027-03-28 01:00")))

    assert order.key == "schedule:s:2027-03-28T01:00:00Z"
    assert (order.queue, order.params, order.priority, order.description) == ("q", {"a": 1}, 3, "d")
    assert order.parent == "schedule:s"


GOOD = {"name": "nightly", "cron": "0 2 * * *", "queue": "q"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cron": "0 2 * *"}, "cron '0 2 \\* \\*' has 4 fields, and needs five: minute, hour, day-of-month"),
        ({"cron": "0 0 2 * * *"}, "has 6 fields"),
        ({"cron": "@daily"}, "has 1 fields"),
        ({"cron": ""}, "has 0 fields"),
        ({"cron": "61 2 * * *"}, "minute '61' is not understood; it takes .* of 0-59"),
        ({"cron": "0 24 * * *"}, "hour '24' is not understood; it takes .* of 0-23"),
        ({"cron": "0 2 0 * *"}, "day-of-month '0' is not understood"),
        ({"cron": "0 2 30 2 *"}, "day-of-month '30' is not understood; .* must exist in one of the months"),
        ({"cron": "0 2 * foo *"}, "month 'foo' is not understood"),
        ({"cron": "0 2 * * 1-9"}, "day-of-week '1-9' is not understood"),
        ({"cron": "*/0 2 * * *"}, "minute '\\*/0' is not understood"),
        ({"cron": "0 2 */31 * MON#2"}, "never comes"),
        ({"cron": "0,1 2 * * " + "1," * 200 + "1"}, "characters, at most 200"),
        ({"zone": "Berlin"}, "there is no time zone 'Berlin'; they are named like 'Europe/Berlin'"),
        ({"zone": "Europe"}, "there is no time zone 'Europe'"),
        ({"zone": ""}, "there is no time zone ''"),
        ({"zone": "../../etc/passwd"}, "there is no time zone"),
        ({"zone": "a\0b"}, "there is no time zone"),
        ({"name": "a:b"}, "name must be"),
        ({"name": ""}, "name must be"),
        ({"params": [1]}, "params must be a JSON object"),
        ({"priority": 1_000_001}, "priority must be within 1,000,000 of 0"),
        ({"missed": "never"}, "this is no schedule: Invalid enum value 'never' - at `\\$.missed`"),
        ({"colour": "red"}, "this is no schedule: .*colour"),
        ({"cron": 5}, "this is no schedule: Expected `str`"),
    ],
)
def test_what_is_wrong_is_told_and_where(change: dict[str, object], message: str) -> None:
    with pytest.raises(BadTask, match=message):
        read_schedule({**GOOD, **change})


@pytest.mark.parametrize("cron", ["0 2 * * *", "*/5 8-18 * jan,jul mon-fri", "0 0 L * *", "0 0 29 2 5#5"])
def test_what_can_be_understood_is_accepted(cron: str) -> None:
    assert read_schedule({**GOOD, "cron": cron, "zone": "Europe/Berlin"}).cron == cron


def refusal(text: str) -> str | None:
    try:
        check_cron(text)
    except BadTask as error:
        return str(error)
    return None


@given(st.text("0123456789*/,-#LWSUNJA¹ß ", max_size=40))
def test_whatever_the_text_it_is_taken_or_refused_with_a_reason(text: str) -> None:
    reason = refusal(text)

    if reason is None:
        assert next(moments(schedule(text, "Europe/Berlin"), 0)) > 0
    else:
        assert reason.startswith("cron ")
