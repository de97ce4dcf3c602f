"""The verbs on QueueBalance's document, and the leader's work by it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from tidemill.base.log import get_logger
from tidemill.cluster import Grant
from tidemill.store import Collection, Conflict, Fence, Fenced, Store, eq, lt, one_of
from tidemill.tasks.balance import Balance, Load, Report, Settings, Status, read_balance, share, total_at
from tidemill.tasks.errors import BadTask, NoSuchQueue
from tidemill.tasks.queue import Queue, list_queues, update_queue
from tidemill.tasks.rounds import rounds
from tidemill.tasks.schedule import local_time
from tidemill.tasks.status import LIVE, QUEUED
from tidemill.tasks.task import DELAYED, TASKS

log = get_logger("tidemill.balance")

BALANCE = Collection("balance")
REPORTS = Collection("balance_report")
"""Apart from what is wanted, so that whoever watches that is not woken by each word from QueueBalance."""

KEY = "balance"
EVERY_S = 30.0
NOTHING_S = 3600.0
_ATTEMPTS = 20


async def get_balance(store: Store) -> Balance:
    """What is wanted now; nothing, before anybody said. Raises `BadTask` when it cannot be understood."""
    found = await store.get(BALANCE, KEY)
    if found is None:
        return Balance()
    known = {name: value for name, value in found.body.items() if name in Balance.__struct_fields__}
    try:
        return msgspec.convert({**known, "revision": found.revision}, Balance)
    except msgspec.ValidationError as error:
        raise BadTask(f"the balance document cannot be understood: {error}") from error


async def set_balance(store: Store, values: Mapping[str, Any], *, expect: int | None = None) -> Balance:
    """Put these in place of what was wanted. Raises `BadTask` with the reason.

    With `expect`, only if that is still at this revision, 0 for none yet; else raises `Conflict`.
    """
    known = {queue.name for queue in await list_queues(store)}
    wanted = read_balance(values, known, await store.now())
    body = msgspec.to_builtins(wanted)
    body.pop("revision", None)
    for attempt in range(_ATTEMPTS):
        found = await store.get(BALANCE, KEY) if expect is None else None
        at = found.revision if found is not None else expect
        try:
            revision = await _put(store, BALANCE, body, at or None, None)
            return msgspec.structs.replace(wanted, revision=revision)
        except Conflict:
            if expect is not None or attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt raises")


async def get_report(store: Store) -> Report | None:
    """What QueueBalance last said of itself."""
    found = await store.get(REPORTS, KEY)
    return None if found is None else msgspec.convert(found.body, Report)


class Balancer:
    """Sets the threads of queues as their balance says: `Duty("balance", balancer.lead)`.

    Every half minute while there are queues to balance, and whenever the document changes. Each round ends
    with a report. What somebody else changes about a queue at the same time is left for the next round.
    """

    def __init__(self, store: Store, fence: Callable[[], Fence], settings: Settings) -> None:
        self._store = store
        self._fence = fence
        self._settings = settings

    async def lead(self, _: Grant) -> None:
        """Go on until cancelled; return at once when this is not enabled."""
        if self._settings.enabled:
            await rounds(self._store, BALANCE, self.round)

    async def round(self) -> float:
        """Balance once; return the seconds until it is time again."""
        try:
            balance = await get_balance(self._store)
            if not balance.queues:
                return NOTHING_S
            now = await self._store.now()
            status, message = await self._balance(balance, now)
        except BadTask as error:
            now, status, message = await self._store.now(), "CRITICAL", f"cannot run: {error}"
        await self._report(Report(status, f"QueueBalance {message}", now // 1000))
        return EVERY_S

    async def _balance(self, balance: Balance, now: int) -> tuple[Status, str]:
        """Do what is to be done, and say how it went."""
        if balance.disabled is not None and now < balance.disabled * 1000:
            until = datetime.fromtimestamp(balance.disabled, UTC)
            return "OK", f"is disabled until {until:%Y-%m-%d %H:%M:%S} UTC"
        total = total_at(balance.max_tasks, local_time(now, balance.zone))
        if total is None:
            return "WARNING", "has no totals: max_tasks is empty"
        queues = {queue.name: queue for queue in await list_queues(self._store)}
        groups = [
            {name: await self._load(queues[name], total) for name in group if name in queues}
            for group in balance.queues
        ]
        if self._settings.verbose:
            log.info("balance.round", total=total, groups=msgspec.to_builtins(groups))
        changes = {name: n for name, n in share(total, groups).items() if queues[name].threads != n}
        if self._settings.pretend:
            would = ", ".join(f"{name} to {threads}" for name, threads in changes.items())
            return "OK", f"only pretends: it would set {would or 'nothing'}"
        for name, threads in changes.items():
            await self._set(queues[name], threads)
        gone = [name for group in balance.queues for name in group if name not in queues]
        if gone:
            return "WARNING", f"is running, though there is no queue {', '.join(gone)}"
        return "OK", "is running"

    async def _load(self, queue: Queue, total: int) -> Load:
        """What a queue has to do. More than the total need not be counted, nor what cannot be begun now."""
        running = await self._store.count(TASKS, eq("queue", queue.name), one_of("status", LIVE))
        if queue.paused:
            return Load(0, running)
        waiting = (eq("queue", queue.name), eq("status", QUEUED), lt("rank", DELAYED))
        return Load(await self._store.count(TASKS, *waiting, limit=max(total, 1)), running)

    async def _set(self, queue: Queue, threads: int) -> None:
        change, fence = {"threads": threads}, self._fence()
        try:
            await update_queue(self._store, queue.name, change, expect=queue.revision, fence=fence)
        except Fenced:
            raise
        except (Conflict, NoSuchQueue) as error:
            log.debug("balance.changed_meanwhile", queue=queue.name, error=str(error))
            return
        if self._settings.log:
            log.info("balance.changed", queue=queue.name, before=queue.threads, after=threads)

    async def _report(self, report: Report) -> None:
        found = await self._store.get(REPORTS, KEY)
        body, at = msgspec.to_builtins(report), None if found is None else found.revision
        try:
            await _put(self._store, REPORTS, body, at, self._fence())
        except Fenced:
            raise
        except Conflict:
            log.debug("balance.reported_meanwhile")


async def _put(
    store: Store, collection: Collection, body: dict[str, Any], at: int | None, fence: Fence | None
) -> int:
    """Write the one document of the collection in place of that revision; None when there is none yet."""
    if at is None:
        return await store.create(collection, KEY, body, fence=fence)
    return await store.replace(collection, KEY, body, expect=at, fence=fence)
