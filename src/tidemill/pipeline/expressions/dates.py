"""Dates and timestamps: their fields and their arithmetic.

A date is a number of days, a timestamp a number of microseconds, since 1970 in the proleptic Gregorian
calendar. Numpy's calendar is used, which holds for every date that Spark can hold; Arrow's ends with the year
32767.

Option `zone` is the session's time zone: fields of a timestamp are those of the local time there. Only UTC
is proved, see `proved`; a timestamp without zone is its own local time.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from tidemill.pipeline.expressions.arithmetic import overflow
from tidemill.pipeline.expressions.evaluation import Kernel, Value
from tidemill.pipeline.expressions.kernels import Numbers, any_valid, array, nulls, numbers
from tidemill.pipeline.expressions.strings import constant
from tidemill.pipeline.plan.expression import Call

DAY_US = 86_400_000_000
CLOCK = ((3_600_000_000, 24), (60_000_000, 60), (1_000_000, 60))
"""Hours, minutes, seconds: how long each is, and how many there are."""
Field = Callable[[Numbers], Numbers]


def months(days: Numbers) -> Numbers:
    """Months since January 1970."""
    return days.astype(np.int64).view("M8[D]").astype("M8[M]").view(np.int64)


def first_day(month: Numbers) -> Numbers:
    """The day on which a month since January 1970 begins."""
    return month.astype(np.int64).view("M8[M]").astype("M8[D]").view(np.int64)


def _field(read: Field) -> Callable[[Call], Kernel]:
    """A field of a date, an int."""

    def build(_: Call) -> Kernel:
        def kernel(value: Value) -> pa.Array:
            return array(read(numbers(value)).astype(np.int32), pa.int32(), nulls(value))

        return kernel

    return build


def _day_of_month(days: Numbers) -> Numbers:
    return days - first_day(months(days)) + 1


def _year(days: Numbers) -> Numbers:
    return months(days) // 12 + 1970


def _week_of_year(days: Numbers) -> Numbers:
    """The ISO week: that of the year in which its Thursday lies."""
    thursday = days.astype(np.int64) - (days.astype(np.int64) + 3) % 7 + 3
    return (thursday - first_day(months(thursday) // 12 * 12)) // 7 + 1


year = _field(_year)
quarter = _field(lambda days: months(days) % 12 // 3 + 1)
month = _field(lambda days: months(days) % 12 + 1)
day_of_month = _field(_day_of_month)
day_of_year = _field(lambda days: days - first_day(months(days) // 12 * 12) + 1)
day_of_week = _field(lambda days: (days.astype(np.int64) + 4) % 7 + 1)
week_day = _field(lambda days: (days.astype(np.int64) + 3) % 7)
week_of_year = _field(_week_of_year)
hour = _field(lambda time: time // 3_600_000_000 % 24)
minute = _field(lambda time: time // 60_000_000 % 60)
second = _field(lambda time: time // 1_000_000 % 60)


def last_day(call: Call) -> Kernel:
    return lambda value: array(
        (first_day(months(numbers(value)) + 1) - 1).astype(np.int32), call.type, nulls(value)
    )


def date_add(call: Call) -> Kernel:
    """DateAdd(date, days): wraps around, as Java's int."""
    return _of_days(call, lambda days, more: days + more.astype(np.int32))


def date_sub(call: Call) -> Kernel:
    return _of_days(call, lambda days, less: days - less.astype(np.int32))


def date_diff(call: Call) -> Kernel:
    """DateDiff(end, start) in days: wraps around."""
    return _of_days(call, lambda end, start: end - start)


def _of_days(call: Call, combine: Callable[[Numbers, Numbers], Numbers]) -> Kernel:
    def kernel(left: Value, right: Value) -> pa.Array:
        return array(combine(numbers(left), numbers(right)), call.type, nulls(left, right))

    return kernel


def add_months(call: Call) -> Kernel:
    """AddMonths(date, months): a day that the month does not have becomes its last. Too far a date raises."""

    def kernel(date: Value, count: Value) -> pa.Array:
        missing, days = nulls(date, count), numbers(date)
        target = months(days) + numbers(count)
        begin, end = first_day(target), first_day(target + 1)
        moved = np.minimum(begin + _day_of_month(days) - 1, end - 1)
        if any_valid(moved != moved.astype(np.int32), missing):
            raise overflow()
        return array(moved.astype(np.int32), call.type, missing)

    return kernel


def since_1970(unit_us: int) -> Callable[[Call], Kernel]:
    """UnixSeconds, UnixMillis, UnixMicros: of a timestamp, rounded down."""
    return lambda call: lambda value: array(numbers(value) // unit_us, call.type, nulls(value))


def reinterpret(call: Call) -> Kernel:
    """The same number under another type: PreciseTimestampConversion, UnixDate, DateFromUnixDate."""
    return lambda value: array(numbers(value), call.type, nulls(value))


_MONTHS = {"MON": 1, "MONTH": 1, "MM": 1, "QUARTER": 3, "YEAR": 12, "YYYY": 12, "YY": 12}
_CLOCK = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": DAY_US,
    "DD": DAY_US,
}


def _unit(call: Call, position: int) -> str:
    return constant(call, position).upper()


def truncates_date(call: Call) -> bool:
    return _unit(call, 1) in _MONTHS or _unit(call, 1) == "WEEK"


def truncates_timestamp(call: Call) -> bool:
    return _unit(call, 0) in _MONTHS or _unit(call, 0) in _CLOCK or _unit(call, 0) == "WEEK"


def truncate_date(call: Call) -> Kernel:
    """TruncDate(date, unit), the unit constant. Weeks begin on Monday."""
    unit = _unit(call, 1)
    if unit == "WEEK":
        return lambda value, _: array(_monday(numbers(value)), call.type, nulls(value))
    step = _MONTHS[unit]

    def kernel(value: Value, _: Value) -> pa.Array:
        days, missing = numbers(value), nulls(value)
        first = first_day(months(days) // step * step)
        # Only for quarters does Spark check that the first day is still a date.
        if unit == "QUARTER" and any_valid(first < -(2**31), missing):
            raise overflow()
        return array(first.astype(np.int32), call.type, missing)

    return kernel


def _monday(days: Numbers) -> Numbers:
    """The Monday on or before: as Spark computes it in ints, which wrap around at the ends of time."""
    start = days - np.int32(7)
    return start + np.int32(1) + np.fmod(np.fmod(np.int32(3) - start, np.int32(7)) + np.int32(7), np.int32(7))


def truncate_timestamp(call: Call) -> Kernel:
    """TruncTimestamp(unit, timestamp), the unit constant. Options: `zone`."""
    unit = _unit(call, 0)

    def cut(time: Numbers) -> Numbers:
        if unit in _CLOCK:
            return time // _CLOCK[unit] * _CLOCK[unit]
        days = time // DAY_US
        if unit == "WEEK":
            return (days - (days + 3) % 7) * DAY_US
        return first_day(months(days) // _MONTHS[unit] * _MONTHS[unit]) * DAY_US

    def kernel(_: Value, value: Value) -> pa.Array:
        time, missing = numbers(value), nulls(value)
        whole = cut(time)
        if any_valid(whole > time, missing):  # it lies before the first timestamp
            raise overflow()
        return array(whole, call.type, missing)

    return kernel
