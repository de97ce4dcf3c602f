"""How futures are given their results.

It is done on a thread of its own, and not on the executor's: results are unpickled and callbacks called,
which may take long, and may submit more. Neither may keep leases from being renewed, nor wait for the thread
that it runs on. A result that is plain, with nobody to call back, is given at once: the way over another
thread is long for whoever waits for one small answer after the other.
"""

import concurrent.futures
import queue
import threading
from collections.abc import Callable
from typing import Any

from tidemill.api.line import Ended
from tidemill.tasks.call import TaskFailed, TaskTerminated, raisable, read_outcome, read_plain
from tidemill.tasks.errors import NoSuchTask
from tidemill.tasks.status import CANCELLED, TERMINATED, name_of


class Settleable(concurrent.futures.Future[Any]):
    """A future that knows whether anybody wants to be called back."""

    def __init__(self) -> None:
        super().__init__()
        self._calls_back = False
        self._deciding = threading.Lock()

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        with self._deciding:
            self._calls_back = True
        super().add_done_callback(fn)

    def settle_quietly(self, value: Any) -> bool:
        """Give it that result, unless somebody would be called back on this thread."""
        with self._deciding:
            if self._calls_back or self.done():
                return False
            self.set_result(value)
            return True


class Settling:
    """Settles futures, those that cannot be settled at once in the order in which their tasks have ended."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Settleable, Ended | None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="tidemill-futures", daemon=True)
        self._thread.start()

    def put(self, future: Settleable, ended: Ended | None) -> None:
        """Settle this one, now or soon. None means that there is no such task."""
        if not _at_once(future, ended):
            self._queue.put((future, ended))

    def stop(self) -> None:
        """Return once all are settled."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (entry := self._queue.get()) is not None:
            settle(*entry)


def _at_once(future: Settleable, ended: Ended | None) -> bool:
    """Settle it here, if that runs nobody's code."""
    if ended is None or ended.outcome is None or ended.unreadable is not None or ended.status == CANCELLED:
        return False
    try:
        return future.settle_quietly(read_plain(ended.outcome))
    except ValueError:
        return False


def settle(future: Settleable, ended: Ended | None) -> None:
    """Give the future what came of its task. A second time changes nothing."""
    if future.done():
        return
    if ended is not None and ended.status == CANCELLED:
        concurrent.futures.Future.cancel(future)
        future.set_running_or_notify_cancel()
        return
    value, error = (None, NoSuchTask("there is no such task")) if ended is None else result_of(ended)
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)


def result_of(ended: Ended) -> tuple[Any, Exception | None]:
    """What the task returned, or what is to be raised for it."""
    if ended.unreadable is not None:
        return None, ended.unreadable
    if ended.outcome is None:
        told = ended.reason or f"the task is {name_of(ended.status)}"
        return None, TaskTerminated(told) if ended.status == TERMINATED else TaskFailed(told)
    try:
        return read_outcome(ended.outcome)
    except BaseException as unreadable:  # what it returned needs code that is not here, or is not as it was
        return None, raisable(unreadable)
