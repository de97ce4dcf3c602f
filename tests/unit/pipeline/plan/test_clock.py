"""Moments of the step's clock, where days have 23 and 25 hours."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tidemill.pipeline.plan.clock import DAY_US, Clock, Shift, zone_of

NEW_YORK = "America/New_York"


def us(*local: int, zone: str = NEW_YORK) -> int:
    at = datetime(*local, tzinfo=ZoneInfo(zone))  # type: ignore[arg-type, misc]
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def test_a_day_back_is_the_same_time_of_the_day_before() -> None:
    yesterday = Clock("timestamp", (Shift(days=-1),), NEW_YORK)

    assert yesterday.at(us(2024, 3, 11, 1)) == us(2024, 3, 10, 1)
    assert us(2024, 3, 11, 1) - yesterday.at(us(2024, 3, 11, 1)) == DAY_US - 3_600_000_000


def test_hours_are_always_as_long() -> None:
    assert Clock("timestamp", (Shift(us=-5),), NEW_YORK).at(us(2024, 3, 10, 3)) == us(2024, 3, 10, 3) - 5


def test_a_time_that_was_skipped_is_moved_on() -> None:
    yesterday = Clock("timestamp", (Shift(days=-1),), NEW_YORK)

    assert yesterday.at(us(2024, 3, 11, 2, 30)) == us(2024, 3, 10, 3, 30)


def test_today_is_a_day_of_the_zone() -> None:
    late = us(2024, 3, 10, 23)
    today = Clock("date", (Shift(days=1),), NEW_YORK)
    midnight = Clock("date", (Shift(to="timestamp"),), NEW_YORK)

    assert today.at(late) == (datetime(2024, 3, 11) - datetime(1970, 1, 1)).days
    assert midnight.at(late) == us(2024, 3, 10)
    assert midnight.type == "timestamp"


def test_no_later_clock_gives_a_moment_before_what_is_past() -> None:
    clocks = [
        Clock("timestamp", (Shift(days=-1),), NEW_YORK),
        Clock("timestamp_ntz", (Shift(us=7),), NEW_YORK),
        Clock("date", (Shift(days=-3),), "Pacific/Apia"),
        Clock("timestamp", (Shift(to="date"), Shift(to="timestamp")), "+14:00"),
        Clock("timestamp", (Shift(us=-9),), NEW_YORK),
    ]
    hours = range(us(2024, 1, 1), us(2024, 12, 1), 3_600_000_000)
    for clock in clocks:
        later = None
        for hour in reversed(hours):
            moment = clock.at(hour)
            later = moment if later is None else min(later, moment)
            assert clock.past(hour) <= later


@pytest.mark.parametrize(
    ("name", "minutes"), [("UTC", 0), ("+05:30", 330), ("GMT-8", -480), ("Europe/Zurich", 60)]
)
def test_zones_are_known_by_sparks_names(name: str, minutes: int) -> None:
    assert zone_of(name).utcoffset(datetime(2024, 1, 1)) == timedelta(minutes=minutes)


def test_a_zone_that_is_not_known_is_told() -> None:
    with pytest.raises(LookupError):
        zone_of("Mars/Olympus")
