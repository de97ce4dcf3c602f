"""Runners that only pretend: a job takes its time on the machine's clock, and ends as chance has it."""

import asyncio
import random
from collections.abc import Callable, Container, Sequence

import msgspec

from sim.world import SimLoop
from tidemill.tasks.runner.job import Crashed, Ending, Finished, Job, Listener, Output, Stopped, Untouched
from tidemill.tasks.status import FAILED, SUCCEEDED

QUICK = "wide"
"""The queue whose tasks are often so quick that a node takes more of them than it can run."""

OWN_STATUS = 7
SLOWEST_STOP_S = 0.8


class Run:
    """A job that runs. `told` is whether it was told to end."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.told = False
        self.timer: asyncio.TimerHandle | None = None


class SimRunners:
    """In the place of the pool: at most `size` jobs run at a time, and others wait."""

    def __init__(
        self,
        loop: SimLoop,
        source: random.Random,
        size: int,
        listener: Listener,
        began: Callable[[Job], None],
    ) -> None:
        self.going: dict[Run, None] = {}
        self._loop = loop
        self._source = source
        self._size = size
        self._listener = listener
        self._began = began
        self._waiting: list[Job] = []
        self._stopping = False
        self._none_going = asyncio.Event()

    async def start(self) -> None:
        pass

    async def stop(self, grace_s: float) -> None:
        self._stopping = True
        waiting, self._waiting = self._waiting, []
        for job in waiting:
            self._listener.ended(job, Untouched("the node stopped"))
        for run in self.going:
            self._tell(run, Stopped("the node stopped", "shutdown", printed(run.job)), grace_s)
        while self.going:
            self._none_going.clear()
            await self._none_going.wait()

    def hand_in(self, jobs: Sequence[Job]) -> None:
        self._waiting += jobs
        self._loop.call_soon(self._next)

    def cancel(self, task: str) -> None:
        for run in self.going:
            if run.job.id == task:
                self._tell(run, Stopped("cancelled", "cancel", printed(run.job)), SLOWEST_STOP_S)
        for job in [job for job in self._waiting if job.id == task]:
            self._waiting.remove(job)
            self._listener.ended(job, Stopped("cancelled", "cancel"))

    def withdraw(self, tasks: Container[str]) -> None:
        for job in [job for job in self._waiting if job.id in tasks]:
            self._waiting.remove(job)
            self._listener.ended(job, Untouched("it would have had to wait"))

    def _next(self) -> None:
        while self._waiting and len(self.going) < self._size and not self._stopping:
            self._begin(self._waiting.pop(0))

    def _begin(self, job: Job) -> None:
        run = Run(job)
        self.going[run] = None
        self._listener.started(job)
        seconds, ending = draw_fate(job, self._source)
        if seconds is None or not isinstance(ending, Untouched):
            self._began(job)
        if seconds is not None:
            run.timer = self._loop.call_later(seconds, self._end, run, ending)
        if seconds is None or seconds > 0.5:
            self._loop.call_later(self._source.uniform(0.0, 1.0), self._speak, run)

    def _speak(self, run: Run) -> None:
        if run in self.going:
            self._listener.progressed(run.job, 50.0, "half way")
            self._listener.wrote(run.job, "stdout", 0, words(run.job))

    def _tell(self, run: Run, ending: Ending, within_s: float) -> None:
        """It ends when it heeds the signal, or is killed."""
        if not run.told:
            run.told = True
            if run.timer is not None:
                run.timer.cancel()
            self._loop.call_later(self._source.uniform(0.0, within_s), self._end, run, ending)

    def _end(self, run: Run, ending: Ending) -> None:
        del self.going[run]
        self._listener.ended(run.job, ending)
        if not self.going:
            self._none_going.set()
        self._next()


def draw_fate(job: Job, source: random.Random) -> tuple[float | None, Ending]:
    """How long the job takes, and how it ends; None when it goes on until somebody ends it."""
    chance = source.random()
    common_s = 0.01 if job.queue == QUICK else 1.0
    longest_s = source.choice([common_s, common_s, 2.0, 10.0])
    seconds: float | None = source.uniform(0.001, longest_s)
    result, out = stamp(job), printed(job)
    ending: Ending
    if chance < 0.70:
        ending = Finished(SUCCEEDED, result, out)
    elif chance < 0.75:
        ending = Finished(OWN_STATUS, result, out)
    elif chance < 0.87:
        ending = Finished(FAILED, result, out, reason="it did not work")
    elif chance < 0.95:
        ending = Crashed("died of SIGKILL", -9, out)
    else:
        ending, seconds = Untouched("its runner died"), source.uniform(0.0, 0.5)
    limit_s = job.limits.timeout_s
    if job.params["forever"]:
        seconds = None
    if limit_s is not None and (seconds is None or seconds > limit_s):
        return limit_s, Stopped("it took too long", "timeout", out)
    return seconds, ending


def stamp(job: Job) -> bytes:
    """A result that says under which term it was computed."""
    return msgspec.json.encode({"term": job.fence})


def words(job: Job) -> bytes:
    return f"under term {job.fence}".encode()


def printed(job: Job) -> Output:
    content = words(job)
    return Output(len(content), content)
