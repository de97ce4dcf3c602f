"""QueueBalance: how many tasks at once, by the time of the week, and how queues share them. Pure.

    {"max_tasks": {"* 07:00": 5, "* 19:00": 10, "6 07:00": 15},
     "queues": [["bulk", "mail"], ["express"]],
     "disabled": null,
     "zone": "UTC"}

`max_tasks` is a calendar of totals: from which day (0 is Sunday, `*` every day) and time of day on, how many
tasks of all the queues together. The queues come in groups. Those of the first, the base, get what those of
the later ones have no use for, and a later group what those between it and the base leave. Within a group all
get the same, except those that have no use for it.

It is Disbatch's, with its documents' names and epoch seconds. Unlike there the time of day is that of `zone`,
UTC unless it says otherwise, since each node may have a local time of its own.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from tidemill.tasks.errors import BadTask
from tidemill.tasks.schedule import zone_of

Status: TypeAlias = Literal["OK", "WARNING", "CRITICAL"]

SILENT_S = 60
"""After how long without a word from it QueueBalance counts as dead."""

_ENTRY = re.compile(r"([*0-6]) ([01]\d|2[0-3]):([0-5]\d)")
_DAY_MINUTES = 24 * 60
_MOST = 1_000_000
_LATEST_MS = 2**43


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a node that leads balances, logs what it changes, logs each round, and only pretends."""

    enabled: bool = False
    log: bool = False
    verbose: bool = False
    pretend: bool = False


class Balance(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is wanted, as it was at one moment. `disabled` is the epoch second until which nothing is done."""

    max_tasks: dict[str, int] = {}
    queues: tuple[tuple[str, ...], ...] = ()
    disabled: int | None = None
    zone: str = "UTC"
    revision: int = 0


class Report(Struct, frozen=True):
    """What QueueBalance last said of itself, and at which epoch second."""

    status: Status
    message: str
    timestamp: int


class Load(Struct, frozen=True):
    """How many tasks of a queue could be begun now, and how many have been."""

    queued: int
    running: int

    @property
    def use(self) -> int:
        """How many threads the queue has a use for."""
        return self.queued + self.running


def total_at(max_tasks: Mapping[str, int], local: datetime) -> int | None:
    """The total at a local time: that of the latest entry of the week, or else the last of the week before.

    At the same time an entry for one day stands before one for every day. None when there are no entries.
    """
    week: dict[int, int] = {}
    # `*` sorts before digits, so that an entry for one day is written over that for all.
    for entry in sorted(max_tasks):
        day, hour, minute = _parsed(entry)
        for each in range(7) if day == "*" else [int(day)]:
            week[each * _DAY_MINUTES + hour * 60 + minute] = max_tasks[entry]
    if not week:
        return None
    now = local.isoweekday() % 7 * _DAY_MINUTES + local.hour * 60 + local.minute
    return week[max((start for start in week if start <= now), default=max(week))]


def share(total: int, groups: Sequence[Mapping[str, Load]]) -> dict[str, int]:
    """How many threads each queue is to have, all together at most `total`.

    Nothing that runs is stopped: where a queue is to have fewer threads than it has tasks running, the others
    get their part of these only as they end. So nothing is begun while as many as `total` are running.
    """
    loads = {name: load for group in groups for name, load in group.items()}
    ideal = _ideal(total, groups)
    free = max(total - sum(load.running for load in loads.values()), 0)
    threads = {name: min(ideal[name], load.running) for name, load in loads.items()}
    for group in [*groups[1:], *groups[:1]]:
        more = split(free, {name: ideal[name] - threads[name] for name in group})
        free -= sum(more.values())
        threads.update({name: threads[name] + more[name] for name in group})
    return threads


def _ideal(total: int, groups: Sequence[Mapping[str, Load]]) -> dict[str, int]:
    """How they would share if all began now."""
    uses = [{name: load.use for name, load in group.items()} for group in groups]
    left = min(total, sum(sum(group.values()) for group in uses[1:]))
    ideal = split(total - left, uses[0]) if uses else {}
    for group in uses[1:]:
        parts = split(left, group)
        left -= sum(parts.values())
        ideal |= parts
    return ideal


def split(amount: int, uses: Mapping[str, int]) -> dict[str, int]:
    """The amount in even parts, none larger than its use; what is left over goes to the first, one each."""
    parts = dict.fromkeys(uses, 0)
    while amount > 0 and (hungry := [name for name in uses if parts[name] < uses[name]]):
        each = max(amount // len(hungry), 1)
        for name in hungry[:amount]:
            part = min(each, uses[name] - parts[name])
            parts[name] += part
            amount -= part
    return parts


def read_balance(values: Any, known: Collection[str], now: int) -> Balance:
    """What somebody sent, if it can be done with the queues that are known. `now` is the store's.

    Totals may be written as text. Raises `BadTask` with the reason.
    """
    try:
        balance = msgspec.convert(values, Balance, strict=False)
    except msgspec.ValidationError as error:
        raise _bad(str(error)) from error
    names = Counter(name for group in balance.queues for name in group)
    wrong = [
        *(f"`{field}` is missing" for field in ("max_tasks", "queues") if field not in values),
        *(f"`{field}` is not yours to set" for field in ("revision",) if field in values),
        *(f"there is no queue {name!r}" for name in names if name not in known),
        *(f"queue {name!r} is named twice" for name, times in names.items() if times > 1),
        *("a group has no queues" for group in balance.queues if not group),
        *(f"{entry!r} is not like '* 07:00' or '5 19:30'" for entry in balance.max_tasks if not _ok(entry)),
        *(f"{n} tasks; 0 to {_MOST:,}" for n in balance.max_tasks.values() if not 0 <= n <= _MOST),
    ]
    if balance.disabled and not now < balance.disabled * 1000 < _LATEST_MS:
        wrong.append("`disabled` is no epoch second that is still to come")
    if wrong:
        raise _bad(wrong[0])
    try:
        zone_of(balance.zone)
    except BadTask as error:
        raise _bad(str(error)) from error
    return msgspec.structs.replace(balance, disabled=balance.disabled or None)


def health(settings: Settings, balance: Balance, report: Report | None, now: int) -> Report:
    """How QueueBalance fares at the store's moment `now`: as it says itself, unless it has fallen silent."""
    seconds = now // 1000
    if not settings.enabled:
        return Report("OK", "QueueBalance is not enabled", seconds)
    if not balance.queues:
        return Report("OK", "QueueBalance has no queues to balance", seconds)
    if report is None:
        return Report("CRITICAL", "QueueBalance has not run yet", seconds)
    silent_s = seconds - report.timestamp
    if silent_s > SILENT_S:
        return Report("CRITICAL", f"QueueBalance has been silent for {silent_s} s", report.timestamp)
    return report


def _parsed(entry: str) -> tuple[str, int, int]:
    found = _ENTRY.fullmatch(entry)
    if found is None:
        raise BadTask(f"{entry!r} is not like '* 07:00' or '5 19:30'")
    return found[1], int(found[2]), int(found[3])


def _ok(entry: str) -> bool:
    return _ENTRY.fullmatch(entry) is not None


def _bad(reason: str) -> BadTask:
    return BadTask(f"failed: invalid json passed: {reason}")
