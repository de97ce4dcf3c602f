"""The thread that gives futures their results.

It is not the executor's own: results are unpickled there and callbacks called, which may take long, and may
submit more. Neither may keep leases from being renewed, nor wait for the thread that it runs on.
"""

import concurrent.futures
import queue
import threading
from typing import Any

from tidemill.api.line import Ended
from tidemill.tasks.call import TaskFailed, TaskTerminated, raisable, read_outcome
from tidemill.tasks.errors import NoSuchTask
from tidemill.tasks.status import CANCELLED, TERMINATED, name_of


class Settling:
    """Settles futures in the order in which their tasks are told to have ended."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[concurrent.futures.Future[Any], Ended | None] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._run, name="tidemill-futures", daemon=True)
        self._thread.start()

    def put(self, future: "concurrent.futures.Future[Any]", ended: Ended | None) -> None:
        """Settle this one soon. None means that there is no such task."""
        self._queue.put((future, ended))

    def stop(self) -> None:
        """Return once all are settled."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (entry := self._queue.get()) is not None:
            settle(*entry)


def settle(future: "concurrent.futures.Future[Any]", ended: Ended | None) -> None:
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
