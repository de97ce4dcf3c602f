"""A job as its handler sees it, and how handlers are run."""

import asyncio
import inspect
import math
import threading
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, cast

from tidemill.worker.errors import JobFailed
from tidemill.worker.parcel import Parcel
from tidemill.worker.session import Failure, Outcome, Produced
from tidemill.worker.wire import INLINE_BYTES, TaskGiven

LOGS = 64 * 1024
"""How much of logs is sent: their end."""

_INFO = 1000


class Job:
    """One attempt at a task. `payload` and `path` are the same content, in memory or as a file.

    In the plain protocol a node tells nothing but the payload: `id` is then a name of this worker's own, and
    `attempt` and `fence` are 0.
    """

    def __init__(
        self, given: TaskGiven, parcel: Parcel, report: Callable[[float | None, str | None], None]
    ) -> None:
        self.id: str = given.task
        self.key: str | None = given.key
        self.attempt: int = given.attempt
        self.fence: int = given.fence
        self.queue: str = given.queue
        self.description: str | None = given.description
        self.params: Any = given.params
        self._parcel = parcel
        self._report = report
        self._cancelled = threading.Event()

    @property
    def payload(self) -> bytes:
        """The payload, whole in memory."""
        return self._parcel.content()

    @property
    def path(self) -> Path:
        """A file with the payload. It is removed with the job's folder."""
        return self._parcel.path()

    @property
    def folder(self) -> Path:
        """A folder of the job's own. It is removed once a node has taken the result, which may lie in it."""
        return self._parcel.folder

    @property
    def cancelled(self) -> bool:
        """Whether nobody wants the job done any more: what the handler returns is thrown away."""
        return self._cancelled.is_set()

    def progress(self, percent: float | None = None, info: str | None = None) -> None:
        """Say how far the job is, from any thread. Of many reports in a moment the last is sent.

        Raises `ValueError` for a report that says nothing, and for a percentage that is none.
        """
        if percent is None and info is None:
            raise ValueError("a report has a percentage, words, or both")
        if percent is not None and not (math.isfinite(percent) and 0 <= percent <= 100):
            raise ValueError(f"percent must be from 0 to 100, not {percent:g}")
        self._report(percent, info)

    def cancel(self) -> None:
        """Let the handler know that nobody waits for it."""
        self._cancelled.set()


Answer: TypeAlias = bytes | Path | None
Handler: TypeAlias = Callable[[Job], Answer | Awaitable[Answer]]


def is_async(handler: Handler) -> bool:
    """Whether the handler runs on the event loop; any other has a thread for each job."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


async def attempt(handler: Handler, job: Job) -> Outcome:
    """What comes of the job. Nothing that the handler raises comes out, but a cancellation."""
    if not is_async(handler):
        return await _in_thread(lambda: _attempt(handler, job))
    try:
        return _outcome(await cast("Awaitable[Answer]", handler(job)))
    except (Exception, SystemExit) as error:
        return _failure(error)


def _attempt(handler: Handler, job: Job) -> Outcome:
    try:
        return _outcome(handler(job))
    except BaseException as error:
        return _failure(error)


async def _in_thread(call: Callable[[], Outcome]) -> Outcome:
    """Call in a thread that the end of the process does not wait for, as those of an executor make it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Outcome] = loop.create_future()

    def settle(outcome: Outcome) -> None:
        if not done.done():
            done.set_result(outcome)

    def work() -> None:
        outcome = call()
        with suppress(RuntimeError):  # the loop is closed: the worker has ended without waiting
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=work, name="tidemill-job", daemon=True).start()
    return await done


def _outcome(answer: object) -> Outcome:
    match answer:
        case None:
            return Produced(b"", 0)
        case bytes() | bytearray() | memoryview():
            content = bytes(answer)
            return Produced(content, len(content))
        case Path():
            size = answer.stat().st_size
            return Produced(answer.read_bytes() if size <= INLINE_BYTES else answer.absolute(), size)
    raise TypeError(f"a handler returns bytes, a Path or None, and not {type(answer).__name__}")


def _failure(error: BaseException) -> Failure:
    if isinstance(error, JobFailed):
        return Failure(error.info[:_INFO], error.logs[-LOGS:] if error.logs is not None else None)
    return Failure(
        (str(error) or type(error).__name__)[:_INFO], "".join(traceback.format_exception(error))[-LOGS:]
    )
