"""What a task does under chaos: it writes down that it began and ended, in a file that all runners share."""

import os
import time

from tidemill.tasks.runner import current


def work(path: str, number: int, seconds: float) -> tuple[int, int]:
    """Take a while; return which task it is, and under which fence it ran."""
    job = current.job()
    assert job is not None
    _write(path, f"begun {number} {job.fence}")
    time.sleep(seconds)
    _write(path, f"ended {number} {job.fence}")
    return number, job.fence


def _write(path: str, line: str) -> None:
    # One write that appends is whole, whoever else writes.
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(fd, f"{line}\n".encode())
    finally:
        os.close(fd)
