"""`tidemill.current()`: what a function knows of the task that it runs as.

def count(path):
    task = tidemill.current()
    lines = open(path).readlines()
    for at, line in enumerate(lines):
        task.reporter.report(100 * at / len(lines), line[:20])
    task.context.set(path, len(lines))
"""

from dataclasses import dataclass

from tidemill.api.guard import job_fence, job_origin
from tidemill.api.shared import SharedContext
from tidemill.store import Fence
from tidemill.tasks.runner import current as runner
from tidemill.tasks.runner.job import Job


class StatusReporter:
    """Tells how far the task is that runs in this process, from any of its threads, as often as it likes.

    It can be pickled, and has no state: outside of a task it tells nobody.
    """

    def report(self, percent: float | None = None, info: str | None = None) -> None:
        """Say how far, in percent and in words. Raises ValueError for what is no percentage."""
        runner.report(percent, info)


@dataclass(frozen=True, slots=True)
class Current:
    """One attempt at one task. `fence` grows from attempt to attempt: whatever receives the work of a task
    has to remember the highest that it has seen, and refuse a smaller one."""

    id: str
    attempt: int
    fence: int
    queue: str
    node: str
    _job: Job

    @property
    def reporter(self) -> StatusReporter:
        """How to tell how far the task is."""
        return StatusReporter()

    @property
    def context(self) -> SharedContext:
        """What the tasks of this task's submitter share. What a lost attempt writes to it is refused.

        Raises RuntimeError when the submitter did not name a store: nodes tell nobody the address of theirs.
        """
        origin = job_origin(self._job)
        if origin is None:
            raise RuntimeError(
                f"task {self.id} has no shared context, as its submitter did not name a store; "
                "make a tidemill.SharedContext(url, name) with one that this node reaches"
            )
        return SharedContext(origin.url, origin.context, fence=self.guard())

    def guard(self) -> Fence:
        """The fence as a store's writes take it."""
        return job_fence(self._job)


def current() -> Current:
    """The task whose function runs in this process. Raises RuntimeError where none does."""
    job = runner.job()
    if job is None:
        raise RuntimeError("no task runs here: tidemill.current() is for functions that a node runs")
    return Current(job.id, job.attempt, job.fence, job.queue, str(job.context.get("node", "")), job)
