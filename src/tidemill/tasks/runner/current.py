"""The job that this process runs: what code in it may know, and how it tells how far it is."""

import math
import threading
import time
from collections.abc import Callable

from tidemill.tasks.runner.answer import clean
from tidemill.tasks.runner.job import Job
from tidemill.tasks.runner.wire import Said

_GAP_S = 0.05
_INFO_CHARACTERS = 2000


class Running:
    """A job while it runs. Reports may come from any thread, and as often as it likes.

    They are sent at most once in a gap; the last of those that came in a gap is sent when it is over, or when
    the job ends.
    """

    def __init__(self, number: int, job: Job, send: Callable[[Said], None]) -> None:
        self.job = job
        self._number = number
        self._send = send
        self._lock = threading.Lock()
        self._sent = -math.inf
        self._kept: Said | None = None
        self._timer: threading.Timer | None = None

    def report(self, percent: float | None, info: str | None) -> None:
        said = Said(
            self._number, _checked(percent), None if info is None else clean(str(info))[:_INFO_CHARACTERS]
        )
        with self._lock:
            self._kept = said
            wait_s = self._sent + _GAP_S - time.monotonic()
            if wait_s <= 0:
                self._flush()
            elif self._timer is None:
                self._timer = threading.Timer(wait_s, self._over)
                self._timer.daemon = True
                self._timer.start()

    def end(self) -> None:
        """Send what is kept. No thread is left behind."""
        with self._lock:
            self._flush()
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            timer.join()

    def _over(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer = None
                self._flush()

    def _flush(self) -> None:
        if self._kept is not None:
            self._send(self._kept)
            self._kept, self._sent = None, time.monotonic()


running: Running | None = None
"""Set by the runner around each job."""


def job() -> Job | None:
    """The job whose code is running in this process, or None where none is."""
    return None if running is None else running.job


def report(percent: float | None = None, info: str | None = None) -> None:
    """Tell how far the job is; where none is running, nobody. Raises ValueError for what is no percentage."""
    if running is not None:
        running.report(percent, info)


def _checked(percent: float | None) -> float | None:
    if percent is None:
        return None
    if not math.isfinite(percent):
        raise ValueError(f"{percent} is no percentage")
    return float(percent)
