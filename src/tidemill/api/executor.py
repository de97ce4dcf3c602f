"""Functions as tasks: `concurrent.futures` over a cluster.

with tidemill.Executor("sqlite:///tidemill.db") as executor:
    future = executor.submit(math.factorial, 20)
    print(future.id, future.result())
"""

import concurrent.futures
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, ParamSpec, Self, TypeVar

import uvloop

from tidemill.api.handling import Handling
from tidemill.api.http_line import HttpLine
from tidemill.api.line import Ended, Line, StoreLine
from tidemill.api.settling import Settleable, Settling
from tidemill.base.bridge import LoopThread
from tidemill.store import absolute_url
from tidemill.tasks.call import Origin, pickle_call, pickle_function
from tidemill.tasks.errors import BadTask
from tidemill.tasks.queue import Queue
from tidemill.tasks.task import Progress

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

FUNCTIONS = "functions"
"""The queue of function tasks unless another is named. It is made when it is first used."""

CONTEXT = "default"
"""The shared context of tasks unless another is named."""


_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")


class TaskFuture(Settleable, Generic[T]):
    """What will come of a task. `id` outlives this process: `Executor.future(id)` finds the task again."""

    def __init__(self, id: str, executor: "Executor") -> None:  # noqa: A002 - the task's word for it
        super().__init__()
        self.id = id
        self._executor = executor

    def cancel(self) -> bool:
        """Ask for the task to be cancelled. False when it has ended already.

        One that waits in its queue is cancelled at once; one that runs once its node has ended it. Only then
        is this future cancelled: a task that ends by itself meanwhile has its result.
        """
        if self.done():
            return self.cancelled()
        return self._executor._run(self._executor._line.cancel(self.id, "cancelled"))

    def on_failure_or_timeout(self, fn: Callable[[], object], timeout_s: float | None = None) -> Self:
        """Have `fn()` called when the task has failed, was terminated, orphaned or cancelled.

        With `timeout_s`, a task that has not ended so many seconds from now is cancelled, and counts as such.
        In either case `fn` is called after the task has ended. It is called in a thread of this process; once
        this process is gone, as a task on the node that leads, so that it must be possible to pickle it. It
        is called at least once, and never when the task succeeded. What it raises is logged. A task has one.
        """
        self._executor._handle(self.id, fn, timeout_s)
        return self

    def progress(self) -> Progress | None:
        """How far the task last said to be, with `percent` and `info`. None when it has said nothing."""
        return self._executor._run(self._executor._line.progress(self.id))

    def result(self, timeout: float | None = None) -> T:
        self._executor._check_process()
        value: T = super().result(timeout)
        return value

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._executor._check_process()
        return super().exception(timeout)

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a future stays with its process: send its id, and find it with Executor.future(id)")

    def __repr__(self) -> str:
        return f"<task {self.id}: {super().__repr__()}>"


class Executor(concurrent.futures.Executor):
    """Runs functions on the nodes of a cluster. `url` is the address of its store, or of one of its nodes.

    A function is durable once `submit` has returned, and runs at least once, whatever dies meanwhile; what a
    lost attempt would still write is refused. Leaving the `with` block waits for all futures. With
    `shutdown(wait=False)`, or when the process ends, their tasks go on, and are found again by their ids.

    It may be used by many threads, but not by a forked child. Through a node a `token` with the role function
    is needed where the node asks for tokens; it may be part of the address (`http://TOKEN@host:port`).

    Raises `NoStore` where no node has ever made a store, and warns where none runs now: tasks would wait.
    """

    def __init__(
        self,
        url: str,
        *,
        queue: str = FUNCTIONS,
        context: str = CONTEXT,
        token: str | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        if url.startswith("memory:"):
            raise ValueError("an executor in memory: would reach no node; name a store that others can reach")
        self.url = absolute_url(url)
        self.queue = queue
        self._token = token
        self._context = context
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._futures: dict[str, TaskFuture[Any]] = {}
        self._closed = False
        self._ending = threading.Thread(target=self._end, name="tidemill-ending", daemon=True)
        self._settling = Settling()
        self._thread = LoopThread("tidemill-executor", uvloop.new_event_loop()).start()
        self._line: Line
        self._handling: Handling | None = None
        self._origin: Origin | None = None
        try:
            self._line, attended = self._thread.run(self._open(timeout_s))
        except BaseException:
            self._settling.stop()
            self._thread.stop()
            raise
        if not attended:
            warnings.warn("no node runs on this store: tasks wait until one is started", stacklevel=2)

    # What callers use

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> TaskFuture[T]:
        """Have `fn(*args, **kwargs)` called on some node. The task is durable on return."""
        return self._submit(self.queue, fn, [(args, kwargs)])[0]

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,  # noqa: ARG002 - tasks are always submitted in bulk
        buffersize: int | None = None,  # noqa: ARG002
    ) -> Iterator[T]:
        """Call `fn` on each, all submitted before this returns; results come in order.

        Those that are not wanted any more, since one of them raised or time ran out, are cancelled.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        futures = self.submit_all(fn, [(args, {}) for args in zip(*iterables, strict=False)])
        return _results(futures, deadline)

    def submit_all(
        self, fn: Callable[..., T], calls: Iterable[tuple[tuple[Any, ...], Mapping[str, Any]]]
    ) -> list[TaskFuture[T]]:
        """Submit many calls of one function at once; each is its arguments and keyword arguments."""
        return self._submit(self.queue, fn, calls)

    def future(self, id: str) -> TaskFuture[Any]:  # noqa: A002
        """The future of a task that was submitted before, here or by another process.

        Its exception is `NoSuchTask` when there is no task of that id.
        """
        self._check()
        if not _ID.fullmatch(id):
            raise ValueError(f"{id!r} is no task's id")
        with self._lock:
            known = self._futures.get(id)
            if known is not None:
                return known
            future = self._futures[id] = TaskFuture(id, self)
        self._thread.loop.call_soon_threadsafe(self._line.expect, [id])
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more functions; wait for those under way, or go on waiting in the background."""
        if self._pid != os.getpid():
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                self._ending.start()
        if cancel_futures:
            for future in list(self._futures.values()):
                future.cancel()
        if wait:
            self._ending.join()

    def __reduce__(self) -> tuple[Any, ...]:
        """What arrives connects anew. The address goes along, with whatever secret it has."""
        return _connected, (type(self), self.url, self.queue, self._context, self._token)

    # Inside

    async def _open(self, timeout_s: float) -> tuple[Line, bool]:
        if self.url.startswith(("http:", "https:")):
            line: Line = HttpLine(self.url, self._token, self._ended, timeout_s)
        else:
            line = StoreLine(self.url, self._ended, timeout_s)
            self._handling = Handling(line)
            self._origin = Origin(self.url, self._context)
        try:
            await line.open()
            await line.ensure_queue(Queue(name=self.queue, kind="function"))
            return line, await line.is_attended()
        except BaseException:
            await line.close()
            raise

    def _end(self) -> None:
        """Wait for everything under way, then let go of the cluster."""
        while futures := list(self._futures.values()):
            concurrent.futures.wait(futures)
        if self._handling is not None:
            self._thread.run(self._handling.close())
        self._thread.run(self._line.close())
        self._settling.stop()
        self._thread.stop()

    def _submit(
        self,
        queue: str,
        fn: Callable[..., Any],
        calls: Iterable[tuple[tuple[Any, ...], Mapping[str, Any]]],
    ) -> list[TaskFuture[Any]]:
        self._check()
        function = pickle_function(fn)
        pickled = [pickle_call(function, *call, self._origin) for call in calls]
        return self._run(self._send(queue, pickled))

    async def _send(self, queue: str, calls: Sequence[bytes]) -> list[TaskFuture[Any]]:
        ids = await self._line.submit(queue, calls) if calls else []
        futures: list[TaskFuture[Any]] = [TaskFuture(key, self) for key in ids]
        with self._lock:
            self._futures.update(zip(ids, futures, strict=True))
        self._line.expect(ids, fresh=True)
        return futures

    def _handle(self, task: str, fn: Callable[[], object], timeout_s: float | None) -> None:
        if self._handling is None:
            raise BadTask(
                "on_failure_or_timeout needs the address of a store: "
                "through a node, nobody could take it over from this process"
            )
        if timeout_s is not None and not timeout_s > 0:
            raise ValueError(f"timeout_s is {timeout_s}; it must be more than 0")
        payload = pickle_call(pickle_function(fn), (), {}, self._origin)
        self._run(self._handling.add(task, fn, payload, timeout_s))

    def _ended(self, task: str, ended: Ended | None) -> None:
        """Called on the executor's thread."""
        if self._handling is not None:
            self._handling.ended(task, None if ended is None else ended.status)
        with self._lock:
            future = self._futures.pop(task, None)
        if future is not None:
            self._settling.put(future, ended)

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        """The answer of what runs on the executor's thread."""
        try:
            self._check_process()
            if self._thread.loop.is_closed():
                raise RuntimeError("this executor has been shut down")
        except RuntimeError:
            work.close()
            raise
        return self._thread.run(work)

    def _check(self) -> None:
        self._check_process()
        if self._closed:
            raise RuntimeError("this executor has been shut down, and takes no more functions")

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise RuntimeError(
                "this executor belongs to the process that made it, and is no use after a fork; make another"
            )


def _connected(kind: "type[Executor]", url: str, queue: str, context: str, token: str | None) -> "Executor":
    return kind(url, queue=queue, context=context, token=token)


def _results(futures: list[TaskFuture[T]], deadline: float | None) -> Iterator[T]:
    futures.reverse()
    try:
        while futures:
            left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            yield futures.pop().result(left_s)
    finally:
        for future in futures:
            future.cancel()
