"""All runners of a node: hands jobs to them, and tells what becomes of each.

At most `size` jobs run at a time; others wait here, in the order in which they came. While jobs are quick, a
runner is handed several ahead, so that it never waits for the next. Those it has not begun can be taken back:
when the one before them turns out slow, when they are cancelled, when the runner dies.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Container, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from tidemill.base.log import get_logger
from tidemill.tasks.runner.answer import failed
from tidemill.tasks.runner.attended import Attended
from tidemill.tasks.runner.folder import Folder
from tidemill.tasks.runner.job import (
    Crashed,
    Ending,
    Finished,
    Job,
    Listener,
    Output,
    Recycle,
    Stopped,
    Untouched,
)
from tidemill.tasks.runner.overstep import CANCELLED, SHUTDOWN
from tidemill.tasks.runner.pace import Pace
from tidemill.tasks.runner.plugins import NoPlugin, Plugins, ProgramPlugin
from tidemill.tasks.runner.program import Program
from tidemill.tasks.runner.starting import Starting
from tidemill.tasks.runner.warm import Took, Warm

log = get_logger("tidemill.runner")

CALLER = "tidemill.tasks.call:run"
"""What runs the payload of a function: it takes the bytes, and gives a status and the outcome's bytes."""

_PATIENCE_S = 5.0
_STOPPED = Untouched("the node stopped")
_WITHDRAWN = Untouched("it would have had to wait")


class Statistics(Struct, frozen=True):
    """Counts since the pool was made; `waiting`, `running` and `runners` as they are now."""

    size: int
    waiting: int
    running: int
    runners: int
    finished: int
    crashed: int
    stopped: int
    untouched: int


class Pool:
    """Runs jobs until it is stopped. Every job that is handed in ends exactly once, by `listener.ended`.

    The folder is the pool's alone, and deleted when it stops; what a pool that was killed left, in this
    folder or beside it, is deleted at the start.
    """

    def __init__(
        self,
        size: int,
        listener: Listener,
        plugins: Plugins,
        folder: Path,
        recycle: Recycle | None = None,
        *,
        caller: str = CALLER,
    ) -> None:
        self.size = size
        self.listener = listener
        self.starting = Starting(caller, recycle or Recycle())
        self.folder = folder
        self._plugins = plugins
        self._pace = Pace()
        self._waiting: deque[Job] = deque()
        self._busy: dict[Attended, None] = {}  # in order of their beginning
        self._idle: list[Warm] = []
        self._counts: Counter[type] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._weigh = False
        self._stopping = False
        self._soon = False
        self._held: Folder | None = None
        self._none_busy = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many jobs have not begun."""
        ahead = sum(len(child.orders) - 1 for child in self._busy if isinstance(child, Warm) and child.orders)
        return len(self._waiting) + ahead

    @property
    def running(self) -> int:
        """How many jobs run."""
        return len(self._busy)

    def statistics(self) -> Statistics:
        ends = (self._counts[kind] for kind in (Finished, Crashed, Stopped, Untouched))
        runners = len(self._idle) + sum(isinstance(child, Warm) for child in self._busy)
        return Statistics(self.size, self.waiting, self.running, runners, *ends)

    async def start(self) -> None:
        """Be ready. Raises OSError when the folder or the starter cannot be had."""
        if self._held is None:
            self._held = Folder(self.folder)
        self._stopping = False
        self.starting.start()

    async def stop(self, grace_s: float) -> None:
        """End everything: terminate, and kill what is left after the grace time. May be called twice.

        Nothing of any job runs once this has returned, and all have been told to have ended.
        """
        self._stopping = True
        waiting, self._waiting = self._waiting, deque()
        for job in waiting:
            self.end(job, _STOPPED)
        for child in list(self._busy):
            for job in child.settle() if isinstance(child, Warm) else ():
                self.end(job, _STOPPED)
            child.stop(SHUTDOWN, grace_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s + _PATIENCE_S):
                while self._busy:
                    self._none_busy.clear()
                    await self._none_busy.wait()
        await self.starting.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held is not None:
            self._held.release()
            self._held = None

    def hand_in(self, jobs: Sequence[Job]) -> None:
        """Have the jobs run, as soon as there is room. Returns at once."""
        if self._stopping:
            for job in jobs:
                self.end(job, _STOPPED)
            return
        self._waiting.extend(jobs)
        self._dispatch_soon()

    def cancel(self, id: str) -> None:  # noqa: A002
        """End the job of that id: it is terminated, and killed after its grace time.

        A job that has not begun is ended at once. An unknown id changes nothing.
        """
        for child in list(self._busy):
            if isinstance(child, Warm) and any(order.job.id == id for order in child.orders):
                self.relieve(child)
            if child.job is not None and child.job.id == id:
                child.stop(CANCELLED, child.job.limits.grace_s)
        for job in [job for job in self._waiting if job.id == id]:
            self._waiting.remove(job)
            self.end(job, Stopped(CANCELLED.reason, CANCELLED.cause))
        self._dispatch_soon()

    def withdraw(self, ids: Container[str]) -> None:
        """End those of the jobs untouched that wait here; those that a runner has are left to it."""
        waiting, self._waiting = self._waiting, deque()
        for job in waiting:
            if job.id in ids:
                self.end(job, _WITHDRAWN)
            else:
                self._waiting.append(job)

    # For the children

    def end(self, job: Job, ending: Ending) -> None:
        self._counts[type(ending)] += 1
        self.listener.ended(job, ending)

    def gone(self, child: Attended, untouched: list[Job]) -> None:
        self._busy.pop(child, None)
        if child in self._idle:
            self._idle.remove(child)
        self._put_back(untouched)
        if not self._busy:
            self._none_busy.set()

    def relieve(self, child: Attended) -> None:
        if isinstance(child, Warm):
            self._put_back(child.settle())
            self._rest(child)

    def _put_back(self, jobs: list[Job]) -> None:
        if self._stopping:
            for job in jobs:
                self.end(job, _STOPPED)
        else:
            self._waiting.extendleft(reversed(jobs))
            self._dispatch_soon()

    def look_at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when, self._look)

    def _look(self) -> None:
        self._timer = None
        self._weigh = not self._weigh
        now = asyncio.get_running_loop().time()
        for child in list(self._busy):
            if isinstance(child, Warm) and len(child.orders) > 1 and child.is_slow(now):
                self.relieve(child)
            try:
                child.look(now, self._weigh)
            except Exception as error:
                # One that cannot be looked at must not keep the others from it.
                log.exception("runner.look_failed", error=f"{type(error).__name__}: {error}")
        self._dispatch_soon()

    def _answered(self, runner: Warm, answers: list[Took]) -> None:
        """A runner has done some jobs: it may have others."""
        for queue, seconds in answers:
            self._pace.took(queue, seconds)
        self._rest(runner)
        self._dispatch()

    def _rest(self, runner: Warm) -> None:
        if not runner.orders and runner.open and runner in self._busy:
            del self._busy[runner]
            self._idle.append(runner)

    # Handing out

    def _dispatch_soon(self) -> None:
        """Hand out when nobody is in the middle of telling something, as who is told may hand in."""
        if not self._soon:
            self._soon = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        """Hand out what waits: to whoever is free, then ahead to runners whose jobs are quick."""
        self._soon = False
        while self._waiting and len(self._busy) < self.size and not self._stopping:
            self._begin(self._waiting.popleft())
        if self._waiting and not self._stopping:
            now = asyncio.get_running_loop().time()
            warm = (child for child in self._busy if isinstance(child, Warm))
            runners = [runner for runner in warm if runner.open and not runner.is_slow(now)]
            runners.sort(key=lambda runner: len(runner.orders))
            for at, runner in enumerate(runners):
                self._hand_ahead(runner, -(-len(self._waiting) // (len(runners) - at)))

    def _begin(self, job: Job) -> None:
        """Begin a job, there being room for it."""
        found = None if job.kind == "function" else self._plugins.find(job.plugin)
        match found:
            case NoPlugin(reason):
                self._fail(job, reason)
            case ProgramPlugin(command):
                try:
                    self._busy[Program(self, self.folder, job, command)] = None
                except OSError as error:
                    self.end(job, Untouched(f"the program cannot be started: {error}", trouble=True))
                except (TypeError, ValueError) as error:
                    self._fail(job, f"the program cannot be started: {error}")
            case _:
                try:
                    self._idle = [runner for runner in self._idle if runner.open]
                    runner = self._idle.pop() if self._idle else Warm(self, self.folder, self._answered)
                except OSError as error:
                    self.end(job, Untouched(f"no runner could be started: {error}", trouble=True))
                    return
                self._busy[runner] = None
                self._add(runner, job, None if found is None else found.target)
                runner.send()
                self._rest(runner)

    def _hand_ahead(self, runner: Warm, share: int) -> None:
        """Fill the runner up, once it has done half of what it may have."""
        depth = self._pace.depth(self._waiting[0].queue) if self._waiting else 0
        if len(runner.orders) > depth // 2:
            return
        while self._waiting and share > 0 and len(runner.orders) < self._pace.depth(self._waiting[0].queue):
            job = self._waiting[0]
            found = None if job.kind == "function" else self._plugins.find(job.plugin)
            if isinstance(found, NoPlugin | ProgramPlugin):
                break
            self._waiting.popleft()
            self._add(runner, job, None if found is None else found.target)
            share -= 1
        runner.send()

    def _add(self, runner: Warm, job: Job, target: str | None) -> None:
        try:
            runner.add(job, target)
        except (TypeError, ValueError) as error:
            self._fail(job, f"its parameters cannot be handed to a runner: {error}")

    def _fail(self, job: Job, reason: str) -> None:
        verdict = failed(reason)
        stderr = Output(len(verdict.stderr), verdict.stderr)
        self.end(job, Finished(verdict.status, stderr=stderr, reason=verdict.reason))
