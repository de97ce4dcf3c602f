"""The submitter's side of `tidemill.tasks.handlers`: what is to be done about tasks that end badly."""

import asyncio
import concurrent.futures
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from tidemill.api.line import StoreLine
from tidemill.base.clock import boot_clock
from tidemill.base.ids import new_token
from tidemill.base.log import get_logger
from tidemill.cluster import Grant, Timing
from tidemill.cluster.keeper import Keeper
from tidemill.cluster.lease import granted
from tidemill.store import StoreError, Term
from tidemill.tasks.errors import BadTask
from tidemill.tasks.handlers import HANDLERS, TOO_LATE, Handler, ended_badly, handler_of
from tidemill.tasks.status import is_ended

log = get_logger("tidemill.handlers")

TIMING = Timing(10.0)
"""How long the leader waits for a submitter from which nothing is heard."""

AGAIN_S = 1.0
THREADS = 8
"""So many calls at a time."""


class Owed:
    """A call that this process is to do when a task ends badly. Once `lost` it is the leader's, for good."""

    __slots__ = ("call", "called", "grant", "key", "lost", "timer")

    def __init__(self, key: str, call: Callable[[], object], grant: Grant) -> None:
        self.key = key
        self.call = call
        self.grant = grant
        self.lost = False
        self.called = False
        self.timer: asyncio.TimerHandle | None = None


class Handling:
    """Keeps the leases on all calls that this process owes, in one renewal, and does those that fall due.

    A call is done in a thread of its own, since it may take as long as it likes and submit other functions.
    The document goes after it, so that the leader does it if this process dies meanwhile.
    """

    def __init__(self, line: StoreLine) -> None:
        self._line = line
        self._store = line.store
        self._token = new_token()
        self._owed: dict[str, Owed] = {}
        self._keeper = Keeper(self._store, HANDLERS, self._token, self._owed, self._lose, timing=TIMING)
        self._threads = concurrent.futures.ThreadPoolExecutor(THREADS, "tidemill-handler")
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(
        self, task: str, call: Callable[[], object], payload: bytes, timeout_s: float | None
    ) -> None:
        """Owe this call for that task from now on; durable on return."""
        grant = await self._take(task)
        value = await self._line.shelves.put(f"tasks/{task}/handler", payload)
        due = None
        if timeout_s is not None:
            due = await self._store.now() + round(1000 * timeout_s)
        body = msgspec.to_builtins(Handler(value, due))
        await self._store.replace(HANDLERS, task, body, expect=Term(grant.term))
        owed = self._owed[task] = Owed(task, call, grant)
        await self._keeper.start()
        if timeout_s is not None:
            owed.timer = asyncio.get_running_loop().call_later(timeout_s, self._late, owed)
        status = await self._line.status(task)
        if status is None or is_ended(status):
            self.ended(task, status)  # before anybody could have told us

    async def _take(self, task: str) -> Grant:
        found = await self._store.get(HANDLERS, task)
        sent = boot_clock()
        if found is None or handler_of(found).payload is None:
            leases = await self._store.hold(HANDLERS, [task], self._token, TIMING.ttl_ms)
            grant = granted(leases[task], self._token, sent, TIMING)
            if grant is not None:
                return grant
        raise BadTask(f"task {task} has a handler already")

    def ended(self, task: str, status: int | None) -> None:
        """The task has ended, or was deleted (None): do the call if that is what it waited for."""
        owed = self._owed.get(task)
        if owed is None or owed.called:
            return
        owed.called = True
        if owed.timer is not None:
            owed.timer.cancel()
        if status is None or not ended_badly(status):
            self._spawn(self._settle(owed))
        elif owed.grant.trusted(boot_clock()):
            self._spawn(self._call(owed))
        else:
            self._lose(owed)

    async def close(self) -> None:
        """Wait for the calls under way. What would still be owed is the leader's business from now on."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._keeper.stop()
        self._owed.clear()
        self._threads.shutdown(wait=False)

    async def _call(self, owed: Owed) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, owed.call)
        except Exception:
            log.exception("handler.raised", task=owed.key)
        await self._settle(owed)

    async def _settle(self, owed: Owed) -> None:
        """Nothing is owed any more. If that cannot be written, the leader will see to it once more."""
        self._owed.pop(owed.key, None)
        try:
            await self._store.delete(HANDLERS, owed.key, expect=Term(owed.grant.term))
        except StoreError as error:
            log.warning("handler.not_settled", task=owed.key, error=str(error), code=error.code)

    def _late(self, owed: Owed) -> None:
        """It is cancelled first, and the call done once it has ended so: it may yet succeed."""
        self._spawn(self._cancel(owed))

    async def _cancel(self, owed: Owed) -> None:
        try:
            await self._line.cancel(owed.key, TOO_LATE)
        except StoreError as error:
            log.warning("handler.not_cancelled", task=owed.key, error=str(error), code=error.code)
            owed.timer = asyncio.get_running_loop().call_later(AGAIN_S, self._late, owed)

    def _lose(self, owed: Owed) -> None:
        log.warning("handler.passed_on", task=owed.key)
        self._owed.pop(owed.key, None)
        if owed.timer is not None:
            owed.timer.cancel()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
