"""DateFormatClass and FromUnixTime: timestamps written by a constant pattern, as Java's DateTimeFormatter
does for Locale.US.

Of the letters of patterns, those in `FIELDS` are known, as often repeated as they stand there. Text between
quotes and the signs in `SIGNS` stand for themselves. Spark reads `y` as the year of which there is a 0 and
a -1, so no year needs an era.

Option `zone` is the session's time zone, of which only UTC is proved; a timestamp without zone is its own
local time. Option `policy` is the setting timeParserPolicy, under which LEGACY is another formatter.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.pipeline.expressions.casts_text import EMPTY, TEXT, digits, written_year
from tidemill.pipeline.expressions.dates import DAY_US, first_day, months
from tidemill.pipeline.expressions.evaluation import Kernel, Value
from tidemill.pipeline.expressions.kernels import Numbers, nulls, numbers
from tidemill.pipeline.expressions.strings import constant
from tidemill.pipeline.plan.expression import Call

SIGNS = " -/:.,;_"
TOKEN = re.compile(rf"'([^']+)'|([A-Za-z])\2*|[{re.escape(SIGNS)}]")
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True, slots=True)
class Field:
    """A part of a timestamp, and how it is written."""

    unit_us: int
    """All times within one such unit are written alike."""
    write: Callable[[Numbers], pa.Array]


def _number(unit_us: int, read: Callable[[Numbers], Numbers], width: int) -> Field:
    return Field(unit_us, lambda time: digits(read(time // unit_us), width))


def _name(read: Callable[[Numbers], Numbers], names: tuple[str, ...], length: int | None) -> Field:
    written = pa.array([name[:length] for name in names], TEXT)
    return Field(DAY_US, lambda time: written.take(pa.array(read(time // DAY_US))))


def _year(days: Numbers) -> Numbers:
    return months(days) // 12 + 1970


def _month(days: Numbers) -> Numbers:
    return months(days) % 12


def _fraction(width: int) -> Field:
    """So many digits, of which we know six."""
    unit_us, more = 10 ** max(0, 6 - width), 10 ** max(0, width - 6)
    return _number(unit_us, lambda count: count % (1_000_000 // unit_us) * more, width)


_HALVES = pa.array(["AM", "PM"], TEXT)
_HOUR_US, _MINUTE_US, _SECOND_US = 3_600_000_000, 60_000_000, 1_000_000
FIELDS: dict[str, Field] = {
    "yyyy": Field(DAY_US, lambda time: written_year(_year(time // DAY_US))),
    "yy": _number(DAY_US, lambda days: np.abs(_year(days)) % 100, 2),
    "MMM": _name(_month, MONTHS, 3),
    "MMMM": _name(_month, MONTHS, None),
    "DDD": _number(DAY_US, lambda days: days - first_day(months(days) // 12 * 12) + 1, 3),
    "EEEE": _name(lambda days: (days + 3) % 7, WEEK, None),
    "a": Field(_HOUR_US, lambda time: _HALVES.take(pa.array(time // _HOUR_US % 24 // 12))),
    **{"E" * count: _name(lambda days: (days + 3) % 7, WEEK, 3) for count in (1, 2, 3)},
    **{"S" * count: _fraction(count) for count in range(1, 10)},
    **{
        letter * count: _number(unit_us, read, count)
        for count in (1, 2)
        for letter, unit_us, read in (
            ("M", DAY_US, lambda days: _month(days) + 1),
            ("d", DAY_US, lambda days: days - first_day(months(days)) + 1),
            ("H", _HOUR_US, lambda hours: hours % 24),
            ("h", _HOUR_US, lambda hours: (hours + 11) % 12 + 1),
            ("m", _MINUTE_US, lambda minutes: minutes % 60),
            ("s", _SECOND_US, lambda seconds: seconds % 60),
        )
    },
}


def _parts(pattern: str) -> list[Field | str] | None:
    """Fields and the text between them; None if there is anything else, or no field."""
    parts: list[Field | str] = []
    place = 0
    while place < len(pattern):
        found = TOKEN.match(pattern, place)
        # Two quotes in a row stand for one.
        if (
            found is None
            or (found[2] and found[0] not in FIELDS)
            or pattern.startswith("''", found.end() - 1)
        ):
            return None
        parts.append(FIELDS[found[0]] if found[2] else found[1] or found[0])
        place = found.end()
    return parts if any(isinstance(part, Field) for part in parts) else None


def is_known(call: Call) -> bool:
    return _parts(constant(call, 1)) is not None


def date_format(call: Call) -> Kernel:
    """DateFormatClass(timestamp, pattern), the pattern constant. Options: `zone`, `policy`."""
    return _written(call, unit_us=1)


def from_unixtime(call: Call) -> Kernel:
    """FromUnixTime(seconds, pattern), as DateFormatClass; too many seconds wrap around, as Java's long."""
    return _written(call, unit_us=1_000_000)


def _written(call: Call, unit_us: int) -> Kernel:
    parts = _parts(constant(call, 1))
    assert parts is not None
    finest_us = min(part.unit_us for part in parts if isinstance(part, Field))

    def kernel(value: Value, _: Value) -> pa.Array:
        time, missing = numbers(value) * unit_us, nulls(value)
        # Many rows are written alike, so each text is made once, from the time of any such row.
        alike = pa.array(time // finest_us).dictionary_encode()
        number = numbers(alike.indices)
        sample = np.empty(len(alike.dictionary), np.int64)
        sample[number] = time
        written = (part.write(sample) if isinstance(part, Field) else pa.scalar(part, TEXT) for part in parts)
        return pc.binary_join_element_wise(*written, EMPTY).take(pa.array(number, mask=missing))

    return kernel
