"""Moments that follow the clock of a step: now(), current_date() and localtimestamp(), moved by constants.

They are computed as Spark does: days are those of the calendar in a time zone, where one may have 23 or 25
hours. So a moment can go back a little while the clock goes on, when clocks are set.
"""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo

import msgspec

DAY_US = 86_400_000_000
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 a local time
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::(\d\d))?")
_APART = 2 * DAY_US
"""More than a local time is ever apart from that of UTC, and a moment from the start of its day."""


class Shift(msgspec.Struct, frozen=True, omit_defaults=True):
    """Makes a moment one of type `to`, if it says so, and then moves it."""

    to: str = ""
    days: int = 0
    us: int = 0


class Clock(msgspec.Struct, frozen=True):
    """A moment: `start` is the type of what it starts from, named as in Spark's JSON: now() is a timestamp,
    current_date() a date, localtimestamp() a timestamp_ntz. Numbers are microseconds or days since 1970."""

    start: str
    shifts: tuple[Shift, ...]
    zone: str

    @property
    def type(self) -> str:
        return next((shift.to for shift in reversed(self.shifts) if shift.to), self.start)

    def at(self, clock_us: int) -> int:
        """The moment when the step's clock shows this."""
        zone = zone_of(self.zone)
        kind, value = self.start, _converted(clock_us, "timestamp", self.start, zone)
        for shift in self.shifts:
            if shift.to:
                kind, value = shift.to, _converted(value, kind, shift.to, zone)
            value = _moved(value, kind, shift, zone)
        return value

    def past(self, clock_us: int) -> int:
        """What is less than this stays so: no later clock gives a moment before it."""
        days = sum(shift.days for shift in self.shifts)
        straight = clock_us + days * DAY_US + sum(shift.us for shift in self.shifts)
        if self.type == "timestamp" == self.start and not days and not any(shift.to for shift in self.shifts):
            return straight
        return (straight - _APART) // (DAY_US if self.type == "date" else 1)


@cache
def zone_of(name: str) -> tzinfo:
    """The time zone that Spark calls so. Raises `LookupError` for one that is not known here."""
    if name in {"UTC", "Z", "GMT"}:
        return UTC
    if found := _OFFSET.fullmatch(name):
        sign, hours, minutes = found.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        return timezone(-offset if sign == "-" else offset)
    return ZoneInfo(name)


def _converted(value: int, kind: str, to: str, zone: tzinfo) -> int:
    """The same moment as a value of another type; that of a date is the start of its day."""
    if kind == to:
        return value
    local = value * DAY_US if kind == "date" else value
    if kind == "timestamp":
        local += _offset_us(value, zone)
    if to == "timestamp":
        return local - _offset_of(local, zone)
    return local // DAY_US if to == "date" else local


def _moved(value: int, kind: str, shift: Shift, zone: tzinfo) -> int:
    if kind == "date":
        return value + shift.days
    if kind == "timestamp" and shift.days:
        offset = _offset_us(value, zone)
        local = value + offset + shift.days * DAY_US
        return local - _offset_of(local, zone, offset) + shift.us
    return value + shift.days * DAY_US + shift.us


def _offset_us(instant: int, zone: tzinfo) -> int:
    """By how much the local time is ahead of UTC at an instant."""
    return _us((UTC_EPOCH + timedelta(microseconds=instant)).astimezone(zone).utcoffset())


def _offset_of(local: int, zone: tzinfo, wanted: int | None = None) -> int:
    """The same by the local time: one that was skipped counts as if clocks were not set; one that comes twice
    is the one with the wanted offset, else the first."""
    at = EPOCH + timedelta(microseconds=local)
    first, second = (_us(at.replace(tzinfo=zone, fold=fold).utcoffset()) for fold in (0, 1))
    return second if second == wanted and first > second else first


def _us(offset: timedelta | None) -> int:
    return 0 if offset is None else offset // timedelta(microseconds=1)


UTC_EPOCH = EPOCH.replace(tzinfo=UTC)
