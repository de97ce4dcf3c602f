"""A schedule: a cron line that creates tasks, and the moments at which it does. Pure.

    {"cron": "30 2 * * 1-5", "zone": "Europe/Berlin", "queue": "reports", "params": {"kind": "daily"}}

A *moment* is an instant that the cron line names, in the store's milliseconds. Lines mean what they mean to
Debian's cron, also where clocks change. A fixed time of day that is left out comes as soon as the gap is
over, and one that is repeated comes the first time only. Where the minute or the hour begins with `*`, what
is left out does not come, and what is repeated comes again, so that the pace in real time stays the same.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Any, Literal, TypeAlias
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError
from msgspec import Struct
from msgspec.structs import replace

from tidemill.store import Document
from tidemill.tasks import order
from tidemill.tasks.errors import BadTask

Missed: TypeAlias = Literal["catch_up", "skip"]

CATCH_UP_MOST = 100
"""How many missed moments are made up for; those before them are dropped."""

GRACE_MS = 60_000
"""How late a moment may come and not count as missed."""

COUNTED_MOST = 1000
"""Up to how many missed moments are counted exactly: to find each one costs a node some of its time."""

NEXT_MOST = 1000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR_MS = 3_600_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_CRON_LENGTH = 200
_FIELDS = {
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31, L or LW; that day must exist in one of the months",
    "month": "1-12 or JAN-DEC",
    "day-of-week": "0-7 or SUN-SAT; 5L is the last Friday, 5#2 the second",
}


class Schedule(Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule as it was at one moment.

    `last` is the last moment that was dealt with. Of what was missed since, because no leader was there, each
    is made up for, or with "skip" none. `runs` counts the moments that had a task created, `dropped` those
    that had none, or after a long absence at least so many. `error` says why the last attempt to create one
    failed; it is made again.
    """

    name: str
    cron: str
    queue: str
    zone: str = "UTC"
    params: Any = None
    priority: int = 0
    description: str | None = None
    paused: bool = False
    missed: Missed = "catch_up"
    last: int = 0
    runs: int = 0
    dropped: int = 0
    error: str | None = None
    ctime: int = 0
    revision: int = 0


def schedule_of(document: Document) -> Schedule:
    """The schedule that a document holds; what a newer release adds is left out."""
    known = {name: value for name, value in document.body.items() if name in Schedule.__struct_fields__}
    return msgspec.convert({**known, "name": document.key, "revision": document.revision}, Schedule)


def read_schedule(values: Mapping[str, Any]) -> Schedule:
    """A schedule from what somebody sent. Raises `BadTask` with the reason."""
    try:
        schedule = msgspec.convert(dict(values), Schedule)
    except msgspec.ValidationError as error:
        raise BadTask(f"this is no schedule: {error}") from error
    return checked(schedule)


def checked(schedule: Schedule) -> Schedule:
    """The schedule, if it can be one. Raises `BadTask`, which says what is wrong and where."""
    named = f"schedule {schedule.name!r}"
    if not _NAME.fullmatch(schedule.name):
        raise BadTask(f"{named}: name must be letters, digits, '.', '_' and '-', at most 100")
    try:
        zone_of(schedule.zone)
        check_cron(schedule.cron)
        order.checked(order_for(schedule, run_key(schedule, 0)))
    except BadTask as error:
        raise BadTask(f"{named}: {error}") from error
    return schedule


def check_cron(text: str) -> None:
    """Raises `BadTask` unless the text has five fields that can be understood, and names a day to come."""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise BadTask(f"cron {_shown(text)} has {len(fields)} fields, and needs five: {', '.join(_FIELDS)}")
    if len(text) > _CRON_LENGTH:
        raise BadTask(f"cron {_shown(text)} has {len(text)} characters, at most {_CRON_LENGTH}")
    if next(_cron(text, datetime(2000, 1, 1, tzinfo=UTC)), None) is None:
        raise BadTask(f"cron {text!r} never comes: no day within 50 years is as its fields say")


def zone_of(name: str) -> ZoneInfo:
    """The time zone of that name. Raises `BadTask`."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise BadTask(f"there is no time zone {_shown(name)}; they are named like 'Europe/Berlin'") from error


def local_time(instant: int, zone: str) -> datetime:
    """What clocks in the zone show at an instant of the store."""
    return (_EPOCH + timedelta(milliseconds=instant)).astimezone(zone_of(zone))


def due(schedule: Schedule, now: int) -> tuple[tuple[int, ...], Schedule]:
    """The moments that need a task now, oldest first, and the schedule once they have one.

    While nothing is due the schedule is the same as before. What was due by `last` is not due again, even if
    the clock has gone back.
    """
    missed = () if schedule.paused else _moments_until(schedule, now)
    if not missed:
        return (), schedule
    if schedule.missed == "catch_up":
        run = missed[-CATCH_UP_MOST:]
    else:
        run = tuple(moment for moment in missed if moment >= now - GRACE_MS)
    after = replace(
        schedule,
        last=missed[-1],
        runs=schedule.runs + len(run),
        dropped=schedule.dropped + len(missed) - len(run),
        error=None,
    )
    return run, after


def next_runs(schedule: Schedule, now: int, n: int) -> list[int]:
    """Its next `n` moments; none while it is paused."""
    if not 1 <= n <= NEXT_MOST:
        raise BadTask(f"{n} runs were asked for; 1 to {NEXT_MOST:,} can be told")
    return [] if schedule.paused else list(islice(moments(schedule, max(now, schedule.last)), n))


def run_key(schedule: Schedule, moment: int) -> str:
    """The key of the one task for that moment, whoever creates it."""
    instant = _EPOCH + timedelta(milliseconds=moment)
    return f"schedule:{schedule.name}:{instant:%Y-%m-%dT%H:%M:%SZ}"


def order_for(schedule: Schedule, key: str) -> order.Order:
    """What is to be done at one moment, or when somebody asks for it."""
    return order.Order(
        queue=schedule.queue,
        params=schedule.params,
        key=key,
        priority=schedule.priority,
        description=schedule.description,
        parent=f"schedule:{schedule.name}",
    )


def moments(schedule: Schedule, after: int) -> Iterator[int]:
    """The moments after an instant, in order. It ends if there is none within 50 years."""
    for found in _cron(schedule.cron, local_time(after, schedule.zone)):
        moment = round(found.timestamp() * 1000)
        # Begun from a time of day that clocks show twice, what came the first time is found again.
        if moment > after:
            after = moment
            yield moment


def _moments_until(schedule: Schedule, now: int) -> tuple[int, ...]:
    """All moments since the last, or so many of the latest that there is no need to count any further."""
    reach = _HOUR_MS
    while True:
        start = max(schedule.last, now - reach)
        found = tuple(takewhile(lambda moment: moment <= now, moments(schedule, start)))
        if start == schedule.last or len(found) >= COUNTED_MOST:
            return found
        reach *= 2


def _cron(text: str, at: datetime) -> CronSim:
    try:
        return CronSim(text, at)
    except CronSimError as error:
        bad = str(error).removeprefix("Bad ")
        fields = dict(zip(_FIELDS, text.split(), strict=False))
        if bad not in fields:
            raise BadTask(f"cron {_shown(text)}: {error}") from error
        raise BadTask(
            f"cron {_shown(text)}: {bad} {fields[bad]!r} is not understood; "
            f"it takes *, lists, ranges and steps of {_FIELDS[bad]}"
        ) from error


def _shown(text: str) -> str:
    return repr(text if len(text) <= _CRON_LENGTH else f"{text[:_CRON_LENGTH]}…")
