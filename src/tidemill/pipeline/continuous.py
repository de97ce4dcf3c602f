"""A pipeline that runs by itself: a step whenever there is something to do, a version now and then.

    callers' threads             the store's event loop                         one thread
    start, pause, wait ── tell ──► PipelineCoordinator ─ WorkerLoop ─ body ──► resume, settle, tidy, commit

One body stands for all pipeline workers: inside one engine they are at the same step by construction. The
engine blocks, so it has a thread of its own, which does one thing after the other. A step that was given up
has to end in that thread before anything else is done: there are never two in the engine.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

from tidemill.base.log import get_logger
from tidemill.pipeline.coordinator import CheckpointDue, Event, PipelineCoordinator, StepBegan, StepEnded
from tidemill.pipeline.engine import Engine
from tidemill.pipeline.errors import Forgotten, NoSuchName, NotNow, NotOpen, StepAborted, StepFailed
from tidemill.pipeline.lifecycle import WorkerLoop
from tidemill.pipeline.log.root import Root, StepRecord
from tidemill.pipeline.step import blocked, unfillable

log = get_logger("tidemill.pipeline.continuous")
T = TypeVar("T")

FIRST_DELAY_S = 0.1
LAST_DELAY_S = 10.0
"""How long to wait before trying again: twice as long after each failure in a row, up to this."""


class EngineBody:
    """An engine as the body of a pipeline worker.

    `tell` reaches the coordinator; `settled` is called after every step. What has failed for its data before
    is tried once more by the first step.
    """

    def __init__(self, engine: Engine, tell: Callable[[Event], None], settled: Callable[[], None]) -> None:
        self._engine = engine
        self._tell = tell
        self._settled = settled
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidemill-steps")
        self._failures = 0
        self._again = True
        self.commit_asked = False

    async def versions(self) -> range:
        kept = self._engine.root.versions
        return range(kept[0].number, kept[-1].number + 1)

    async def open(self, version: int) -> int:  # noqa: ARG002
        """Go on from the newest version with the steps since then, which the engine still has: what failed
        has not changed it. After a failure that takes a while."""
        if self._failures:
            longest = min(LAST_DELAY_S, self._engine.policy.deadline_s / 4)
            await asyncio.sleep(min(FIRST_DELAY_S * 2.0 ** (self._failures - 1), longest))
        return await self._do(self._engine.resume)

    async def read(self, step: int, token: asyncio.Event) -> StepRecord | None:
        with self._commit_when_due():
            record = await self._engine.read(step, token, again=self._again)
        if record is not None:
            self._again = False
            self._tell(StepBegan())
        return record

    async def run(self, step: int, given: StepRecord) -> None:
        """Run the step and write its output. Aborted, it is settled as well."""
        try:
            await self._do(lambda: self._engine.settle(given))
        except StepAborted as error:
            log.warning("step.aborted", step=step, view=error.view, operator=error.operator, error=str(error))

    async def write(self, step: int, output: None) -> None:  # noqa: ARG002
        """The output is written; what is left is to tell of it, and to tidy up."""
        self._failures = 0
        self._tell(StepEnded())
        self._settled()
        await self._do(self._engine.tidy)

    async def commit(self, step: int) -> None:  # noqa: ARG002
        await self._do(self._engine.commit)
        self.commit_asked = False

    async def break_off(self) -> None:
        """Return when nothing is done any more."""
        self._failures += 1
        await asyncio.to_thread(self._engine.runtime.cancel)
        await self._do(lambda: None)

    def close(self) -> None:
        self._thread.shutdown(wait=False)

    @contextmanager
    def _commit_when_due(self) -> Iterator[None]:
        """Tell that a version is due: now, or when it is so while there is no input."""
        due_s = 0.0 if self.commit_asked else self._engine.commit_due_s
        if due_s is None:
            yield
        elif due_s <= 0:
            self._tell(CheckpointDue())
            yield
        else:
            later = asyncio.get_running_loop().call_later(due_s, self._tell, CheckpointDue())
            try:
                yield
            finally:
                later.cancel()

    async def _do(self, act: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, act)


class EngineWorker(WorkerLoop):
    """A pipeline worker whose steps cannot be cancelled, only waited for."""

    def __init__(self, body: EngineBody, failed: Callable[[Exception], None]) -> None:
        super().__init__(body, failed)
        self._engine_body = body

    async def abandon(self) -> None:
        await super().abandon()
        await self._engine_body.break_off()


class Continuous:
    """Runs an open engine from `start` to `pause` or `stop`. Use it from any thread.

    Failures of the machinery are recovered from, however often. Any other error ends the run; `pause`,
    `stop`, `checkpoint` and `wait` raise it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._patience_s = 2 * engine.policy.deadline_s
        self._verbs = threading.RLock()
        self._changed = threading.Condition()
        self._ticks = self._commits = self._started_at = 0
        self._running = self._intermission = False
        self._error: Exception | None = None
        self._failure = ""

    @property
    def running(self) -> bool:
        return self._running

    def start(self) -> None:
        """Run from now on, in the background. Raises `NotNow` when it does already."""
        with self.idle("start()"):
            self._begin()

    def pause(self) -> int:
        """End the step under way and commit; the step that comes next.

        Does no more than commit when it does not run. Raises the error that has ended the run, once, and
        `StepFailed` when it cannot be brought to a halt.
        """
        with self._verbs:
            if not self._running and self._error is None:
                self._engine.commit()
            self._halt()
            return self._engine.runs.step

    def stop(self) -> int:
        """Like `pause`, after the steps that take what was appended and fill what was created before.

        It is not waited for what is behind an append that fails, nor when no step ends any more.
        """
        with suppress(NotOpen):
            self._drain()
        return self.pause()

    def close(self) -> None:
        """Come to a halt if it runs. Raises the error that has ended the run, unless `pause` has."""
        with self._verbs:
            self._halt()

    def checkpoint(self) -> int:
        """Commit a version of all steps that are done by now; its number."""
        with self._verbs:
            if not self._running:
                return self._engine.commit()
            before = self._commits
            self._loop.call_soon_threadsafe(self._ask_commit)
            with self._changed:
                over = lambda: self._commits != before or not self._running  # noqa: E731
                if not self._changed.wait_for(over, self._patience_s):
                    raise StepFailed(f"no version within {self._patience_s:g} s; {self._failure}")
            if self._commits == before:
                self._halt()
            return self._engine.root.version.number

    def wait(
        self, *, step: int | None = None, offset: int | None = None, timeout_s: float | None = None
    ) -> StepRecord:
        """Wait until this step, or the one that has this append, is done: its record.

        Raises `StepAborted` when it was aborted: with an append, when that append alone made it fail. Raises
        `NoSuchName` for an append that is discarded, `Forgotten` for what is not kept any more, `NotNow`
        when the pipeline does not run and so will not get there, and `TimeoutError`.
        """
        if (step is None) == (offset is None):
            raise ValueError("wait for a step or for an offset")
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            with self._changed:
                seen, active = self._ticks, self._running or self._intermission
            record = self._of_append(offset) if offset is not None else self._of_step(step or 0)
            if record is not None:
                return _done(record)
            if not active:
                raise self._error or NotNow("the pipeline does not run: start() it")
            if not self._await_tick(seen, None if end is None else max(0.0, end - time.monotonic())):
                what = f"step {step}" if offset is None else f"append {offset}"
                raise TimeoutError(f"{what} is not done after {timeout_s:g} s; {self._failure}")

    def discard(self, offset: int) -> None:
        """Have no step take this append; a step that is trying it is waited for.

        Raises `NoSuchName` when it is not pending, be it that this step took it, and `NotNow` when the step
        does not end.
        """
        while True:
            with self._changed:
                seen, active = self._ticks, self._running or self._intermission
            try:
                return self._engine.discard(offset)
            except NotNow:
                if not active or not self._await_tick(seen, self._patience_s):
                    raise

    @contextmanager
    def idle(self, what: str) -> Iterator[None]:
        """While it does not run, and is not started. Raises `NotNow` when it runs."""
        with self._verbs:
            if self._running:
                raise NotNow(f"{what}: the pipeline runs by itself; pause() it first")
            yield

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Between two steps; it goes on afterwards if it ran. What failed for its data is tried again."""
        with self._verbs:
            if not self._running:
                yield
                return
            self._intermission = True
            try:
                self._halt()
                try:
                    yield
                finally:
                    self._begin()
            finally:
                self._intermission = False
                self._tick()

    # In the callers' threads

    def _begin(self) -> None:
        self._error, self._failure, self._started_at = None, "nothing failed", self._engine.runs.step
        self._engine.place.run(self._launch())

    def _halt(self) -> None:
        """Come to a halt, with a version; raise the error that has ended the run."""
        if self._running:
            self._loop.call_soon_threadsafe(self._tell, CheckpointDue(halt=True))
            with self._changed:
                halted = self._changed.wait_for(lambda: not self._running, self._patience_s)
            if not halted:
                self._loop.call_soon_threadsafe(self._task.cancel)
                raise StepFailed(f"not at a halt after {self._patience_s:g} s; {self._failure}")
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _drain(self) -> None:
        appended, moves = self._engine.appended(), True
        while self._running and moves:
            step, root = self._engine.runs.step, self._engine.root
            done = root.position >= appended and not self._engine.unfilled
            if done or blocked(root) or self._unfillable(root):
                return
            moves = self._await_step(step)

    def _await_step(self, step: int) -> bool:
        """Whether this step is settled before long, or the run ends."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._engine.runs.step != step or not self._running, self._patience_s
            )

    def _await_tick(self, seen: int, timeout_s: float | None) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._ticks != seen, timeout_s)

    def _of_step(self, step: int) -> StepRecord | None:
        """The record of a step, if it is settled and its changes are in the views."""
        if step >= self._engine.runs.step:
            return None
        for record in self._engine.records(step, step + 1):
            return record
        raise Forgotten(f"step {step} is not kept any more; {self._engine.root.first} is the first that is")

    def _of_append(self, offset: int) -> StepRecord | None:
        """The record of the step that has an append, or that was aborted by it."""
        root = self._engine.root
        if offset in root.discarded:
            raise NoSuchName(f"append {offset} is discarded")
        if offset >= root.position:
            failed = [blame.step for blame in root.blamed if blame.alone == offset]
            if self._unfillable(root) and offset in root.steps.tail[-1].offsets:
                failed.append(root.steps.tail[-1].number)
            # What failed before the start is tried again.
            return self._of_step(failed[-1]) if failed and failed[-1] >= self._started_at else None
        found = [record for record in root.steps.tail if _has(record, offset)]
        if not found:
            found = [record for record in self._engine.records(0, root.last) if _has(record, offset)]
        if not found:
            raise Forgotten(f"the step of append {offset} is not kept any more")
        if offset in found[0].skipped:
            raise NoSuchName(f"append {offset} is discarded")
        return found[0] if found[0].number < self._engine.runs.step else None

    def _unfillable(self, root: Root) -> bool:
        """Whether the last step was aborted by a new view that cannot be filled, and not by its appends."""
        unfilled = self._engine.unfilled
        return bool(unfilled) and not root.blamed and unfillable(root, unfilled)

    # On the store's event loop

    async def _launch(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._body = EngineBody(self._engine, self._tell, self._tick)
        self._worker = EngineWorker(self._body, self._failed)
        deadline_s = self._engine.policy.deadline_s
        self._coordinator = PipelineCoordinator(
            {"all": self._worker}, self._committed, deadline_s=deadline_s, tick_s=min(1.0, deadline_s / 4)
        )
        self._running = True
        self._task = self._loop.create_task(self._main())

    def _tell(self, event: Event) -> None:
        self._coordinator.tell(event)

    async def _main(self) -> None:
        error: Exception | None = None
        try:
            await self._coordinator.run()
        except Exception as raised:
            error = raised
        finally:
            await self._worker.abandon()
            self._body.close()
            self._running, self._error = False, error
            self._tick()

    def _ask_commit(self) -> None:
        self._body.commit_asked = True
        self._tell(CheckpointDue())

    async def _committed(self, step: int) -> int:  # noqa: ARG002
        self._commits += 1
        self._tick()
        return self._engine.root.version.number

    def _failed(self, error: Exception) -> None:
        self._failure = f"the last failure: {error}"
        self._coordinator.failed(error)
        self._tick()

    def _tick(self) -> None:
        with self._changed:
            self._ticks += 1
            self._changed.notify_all()


def _has(record: StepRecord, offset: int) -> bool:
    return record.state == "done" and record.start <= offset < record.stop


def _done(record: StepRecord) -> StepRecord:
    """The record of a done step. Raises `StepAborted` for an aborted one."""
    if record.failure is not None:
        raise StepAborted(
            record.failure.message,
            view=record.failure.view,
            operator=record.failure.operator,
            step=record.number,
            offsets=record.offsets,
        )
    return record
