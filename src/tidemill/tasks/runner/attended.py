"""A child that runs a job, as the pool attends to it: followed, held to its limits, stopped."""

import asyncio
import signal
from abc import ABC, abstractmethod
from typing import Protocol

from tidemill.tasks.runner.capture import Capture
from tidemill.tasks.runner.job import Crashed, Ending, Job, Listener
from tidemill.tasks.runner.overstep import Stop, overstepped
from tidemill.tasks.runner.processes import tree_mb
from tidemill.tasks.runner.starting import Starting

LOOK_S = 0.25
"""How often the pool looks at what runs."""


class Host(Protocol):
    """The pool as its children have it."""

    listener: Listener
    starting: Starting

    def look_at(self, when: float) -> None:
        """Look at the children no later than then, on the loop's clock."""

    def end(self, job: Job, ending: Ending) -> None:
        """A job has ended."""

    def relieve(self, child: "Attended") -> None:
        """Let others have what the child has not begun."""

    def gone(self, child: "Attended", untouched: list[Job]) -> None:
        """A child is dead; those jobs it had not begun."""


class Attended(ABC):
    """One child and the job that it runs, if any. It has a ticket, by which the starter knows it."""

    def __init__(self, host: Host, ticket: int, capture: Capture) -> None:
        self.pid: int | None = None
        self.stop_reason: Stop | None = None
        self._host = host
        self._ticket = ticket
        self._capture = capture
        self._loop = asyncio.get_running_loop()
        self._since = float("inf")
        self._kill_at: float | None = None

    @property
    @abstractmethod
    def job(self) -> Job | None:
        """What it runs now."""

    def began(self, pid: int) -> None:
        """It lives."""
        self.pid = pid

    @abstractmethod
    def refused(self, reason: str) -> None:
        """It could not be started."""

    @abstractmethod
    def ended(self, code: int) -> None:
        """It is dead, and whatever it left is killed."""

    def given_up(self, reason: str) -> None:
        """Its end could not be made sense of: whatever it was at has crashed."""
        job = self.job
        if job is not None:
            self._host.end(job, Crashed(reason))
        self._host.gone(self, [])

    def stop(self, why: Stop, grace_s: float) -> None:
        """Terminate it, and kill it after a while. A second call can only have it killed sooner."""
        kill_at = self._loop.time() + grace_s
        if self.stop_reason is None:
            self.stop_reason, self._kill_at = why, kill_at
            self._host.starting.signal(self._ticket, signal.SIGTERM)
        elif self._kill_at is not None:
            self._kill_at = min(self._kill_at, kill_at)
        self._host.look_at(kill_at)

    def look(self, now: float, weigh: bool) -> None:
        """See how its job does; tell what it wrote, stop it if it takes too much."""
        job = self.job
        if self.stop_reason is not None:
            if self._kill_at is not None and now >= self._kill_at:
                self._kill_at = None
                self._host.starting.signal(self._ticket, signal.SIGKILL)
        elif job is not None:
            self._follow(job)
            if self.job is job:
                heavy = weigh and job.limits.memory_mb is not None and self.pid is not None
                memory_mb = tree_mb(self.pid or 0) if heavy else None
                stop = overstepped(job.limits, now - self._since, self._capture.size(), memory_mb)
                if stop is not None:
                    self._limit(job, stop)
        self._host.look_at(min(now + LOOK_S, self._due()))

    def _limit(self, job: Job, why: Stop) -> None:
        self.stop(why, job.limits.grace_s)

    def _begin(self, job: Job) -> None:
        self._since = self._loop.time()
        self._capture.rewind()
        self._host.look_at(min(self._since + LOOK_S, self._due(job)))
        self._host.listener.started(job)

    def _due(self, job: Job | None = None) -> float:
        """When something is to be done about it."""
        if self.stop_reason is not None:
            return float("inf") if self._kill_at is None else self._kill_at
        job = job or self.job
        timeout_s = None if job is None else job.limits.timeout_s
        return float("inf") if timeout_s is None else self._since + timeout_s

    def _follow(self, job: Job) -> None:
        for stream, offset, content in self._capture.tail():
            self._host.listener.wrote(job, stream, offset, content)
