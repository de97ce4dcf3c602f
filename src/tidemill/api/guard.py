"""The fence of the task whose code runs in this process, for whatever that code writes."""

from tidemill.store import Fence
from tidemill.tasks.call import Origin, origin_of
from tidemill.tasks.runner import current as runner
from tidemill.tasks.runner.job import Job
from tidemill.tasks.task import TASKS


def job_origin(job: Job) -> Origin | None:
    """Where the job's call came from; None for what is no call of a function."""
    return origin_of(job.payload) if job.kind == "function" and job.payload is not None else None


def job_fence(job: Job) -> Fence:
    return Fence(TASKS, job.id, job.fence)


def fence_here(url: str) -> Fence | None:
    """The fence of the task that runs here, if it came from that store: others know nothing of it."""
    job = runner.job()
    origin = None if job is None else job_origin(job)
    return job_fence(job) if job is not None and origin is not None and origin.url == url else None
