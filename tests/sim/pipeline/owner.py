"""An owner: takes the pipeline over, drives its pipeline workers, and serves them input and output."""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from sim.network import SimBackend
from sim.node import TIMEOUT_S
from sim.pipeline.checks import PipelineChecks
from sim.pipeline.wire import Outdated, SimFiles, Wire
from sim.pipeline.worker import Part, SimHandle, SimWorker
from sim.world import SimLoop
from tidemill.base.errors import TidemillError
from tidemill.pipeline.coordinator import CheckpointDue, PipelineCoordinator, StepBegan, StepEnded
from tidemill.pipeline.errors import Forgotten, NotOpen
from tidemill.pipeline.log.file import FileRef
from tidemill.pipeline.log.head import LogHead
from tidemill.pipeline.log.input import InputLog
from tidemill.pipeline.log.output import OutputLog, Written
from tidemill.pipeline.log.root import (
    Failure,
    Root,
    RootOwner,
    StepRecord,
    Version,
    commit_version,
    kept_versions,
    needed_offset,
    pin,
    unpin,
)
from tidemill.pipeline.log.segment import SegmentRef
from tidemill.pipeline.step import Limits, abort, blocked, discard
from tidemill.store import Store

T = TypeVar("T")

KEY = "p"
FRESH = Root(KEY, {})
DEADLINE_S = 6.0


class SimOwner:
    """One process that owns the pipeline, or believes so. `launch` starts a pipeline worker's machine."""

    root_type: type[RootOwner] = RootOwner
    coordinator_type: type[PipelineCoordinator] = PipelineCoordinator

    def __init__(
        self,
        name: str,
        loop: SimLoop,
        connect: Callable[[], SimBackend],
        wire: Wire,
        files: SimFiles,
        checks: PipelineChecks,
        launch: Callable[["SimOwner", int, int], SimWorker],
    ) -> None:
        self.name = name
        self.loop = loop
        self.wire = wire
        self.files = files
        self.checks = checks
        self.random = random.Random(loop.world.random.getrandbits(64))
        self.workers = self.random.randint(1, 4)
        self.term = 0
        self.over = False
        self.handles: list[SimHandle] = []
        self._connect = connect
        self._launch = launch
        self._parts: dict[tuple[int, int], dict[int, Part]] = {}
        self._verdicts: dict[tuple[int, int], asyncio.Event] = {}
        self._states: dict[tuple[int, int], dict[int, FileRef]] = {}
        self._reading = asyncio.Lock()

    def boot(self) -> None:
        self.loop.create_task(self._main())

    async def _main(self) -> None:
        store = Store(self._connect(), timeout_s=TIMEOUT_S, source=self.random)
        await self._patiently(store.open)
        self._open(store)
        root = await self._patiently(lambda: self.root.take_over(FRESH))
        self.term = root.term
        self.loop.world.note(self.name, f"takes over with term {self.term}, {self.workers} workers")
        self.handles = [
            SimHandle(index, self, lambda index: self._launch(self, index, self.attempt))
            for index in range(self.workers)
        ]
        handles = {f"w{index}": handle for index, handle in enumerate(self.handles)}
        self.coordinator = self.coordinator_type(
            handles, self._commit, deadline_s=DEADLINE_S, clock=self.loop.time
        )
        chores = [
            self.loop.create_task(chore()) for chore in (self._checkpoints, self._discards, self._sweeps)
        ]
        try:
            await self.coordinator.run()
        except NotOpen as error:
            self.loop.world.note(self.name, f"is not the owner any more: {error}")
        finally:
            self.over = True
            for chore in chores:
                chore.cancel()

    def _open(self, store: Store) -> None:
        self.head = LogHead(store, KEY, self.files, folder="log", clock=self._now_ms, source=self.random)
        self.root = self.root_type(store, KEY, self.files, folder="root")
        self.input = InputLog(self.head, self.root, clock=self._clock, limits=Limits(rows=8, appends=4))
        self.output = OutputLog(self.root, self.files, folder="out")

    def _now_ms(self) -> int:
        return int(self.loop.time() * 1000)

    async def _clock(self) -> int:
        return self._now_ms()

    @property
    def attempt(self) -> int:
        return self.coordinator.course.attempt if hasattr(self, "coordinator") else 0

    # What pipeline workers ask for. Nothing is served to those of an earlier attempt.

    async def serve_versions(self, attempt: int) -> tuple[Version, ...]:
        self._check(attempt)
        return self.root.root.versions

    async def serve_version(self, attempt: int, number: int) -> Version:
        self._check(attempt)
        [version] = [version for version in self.root.root.versions if version.number == number]
        return version

    async def serve_read(self, attempt: int, step: int) -> tuple[StepRecord, list[SegmentRef]] | None:
        """The record of a step and its segments; None when there is none after a while."""
        self._check(attempt)
        async with self._reading:
            record = await self._patiently(lambda: self._record(step))
        self._check(attempt)
        if record is None:
            return None
        if record.state == "aborted":
            return record, []
        if (attempt, step) not in self._parts:
            self._parts[attempt, step], self._verdicts[attempt, step] = {}, asyncio.Event()
            self.coordinator.tell(StepBegan())
        return record, await self._patiently(lambda: self.input.segments(record))

    async def _record(self, step: int) -> StepRecord | None:
        token = asyncio.Event()
        waking = self.loop.call_later(0.5, token.set)
        try:
            return await self.input.read(step, token)
        finally:
            waking.cancel()

    async def serve_write(self, attempt: int, worker: int, step: int, part: Part) -> bool:
        """Take a part of a step's output; when all are there, settle the step. True when it is done."""
        self._check(attempt)
        parts, verdict = self._parts[attempt, step], self._verdicts[attempt, step]
        fresh = worker not in parts
        parts[worker] = part
        if fresh and len(parts) == self.workers:
            await self._patiently(lambda: self._settle(step, parts))
            self.coordinator.tell(StepEnded())
            verdict.set()
        await verdict.wait()
        return not any(part.error for part in parts.values())

    async def _settle(self, step: int, parts: dict[int, Part]) -> None:
        errors = [part.error for part in parts.values() if part.error]
        if errors:
            await self.root.update(
                lambda root: abort(root, step, Failure(errors[0])) if root.last == step else root
            )
            return
        segments = [segment for worker in sorted(parts) for segment in parts[worker].segments]
        if await self.output.write(step, segments) is Written.DIFFERENT:
            self.checks.differs(step)

    async def serve_commit(self, attempt: int, worker: int, step: int, ref: FileRef) -> None:
        self._check(attempt)
        self._states.setdefault((attempt, step), {})[worker] = ref

    def _check(self, attempt: int) -> None:
        if attempt != self.attempt:
            raise Outdated(f"attempt {attempt} was given up, {self.attempt} is under way")

    # What the owner does by itself.

    async def _commit(self, step: int) -> int:
        states = self._states[self.attempt, step]
        refs = [states[worker] for worker in range(self.workers)]
        name = f"manifest/t{self.term}/a{self.attempt}/s{step}"
        manifest = await self.files.put(name, msgspec.json.encode(refs))
        root = await self.root.update(lambda root: commit_version(root, step, manifest.blob))
        self.loop.world.note(self.name, f"commits version {root.version.number} before step {step}")
        await self.head.trim(needed_offset(root))
        return root.version.number

    async def _sweeps(self) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(1.0, 4.0))
            await self._tolerant(self._sweep)

    async def _sweep(self) -> None:
        """Delete files of earlier owners that nothing refers to."""
        referred = {name async for name in self.root.names()} | {name async for name in self.head.names()}
        for version in kept_versions(self.root.root):
            if version.file is not None:
                found = msgspec.json.decode(await self.files.read(version.file), type=list[FileRef])
                referred |= {ref.name for ref in found}
        self.files.delete(name for name in self.files.names() if name not in referred and self.sweeps(name))
        self.checks.check_files()

    def sweeps(self, name: str) -> bool:
        """Whether a file that nothing refers to is an earlier owner's, so that nobody will refer to it."""
        term = re.search(r"/t(\d+)/", name)
        return term is not None and int(term[1]) < self.term

    async def _checkpoints(self) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(0.5, 5.0))
            self.coordinator.tell(CheckpointDue())
            if self.random.random() < 0.3:
                await self._tolerant(lambda: self.root.update(self._repin))

    def _repin(self, root: Root) -> Root:
        """Take out the pin there is, or pin the oldest version."""
        if root.pins:
            return unpin(root, root.pins[0].name)
        return pin(root, "kept", root.versions[0].number)

    async def _discards(self) -> None:
        """Discard what blocks the others, as a person would."""
        while True:
            await asyncio.sleep(1.0)
            blame = blocked(self.root.root)
            if blame is not None and blame.alone is not None:
                await self._tolerant(partial(self._discard, blame.alone))

    async def _discard(self, offset: int) -> None:
        appended = (await self.head.load()).entries.next
        await self.root.update(lambda root: discard(root, offset, appended))

    async def _tolerant(self, act: Callable[[], Awaitable[Any]]) -> None:
        try:
            await act()
        except TidemillError as error:
            self.loop.world.note(self.name, f"{error.code}: {error}")

    async def _patiently(self, act: Callable[[], Awaitable[T]]) -> T:
        """Try until it works, unless another is the owner, or has committed past what this one needs."""
        while True:
            try:
                return await act()
            except (NotOpen, Forgotten):
                raise
            except TidemillError:
                await asyncio.sleep(0.3)
