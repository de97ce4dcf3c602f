"""A pipeline worker on a machine of its own: the real life cycle around a body that adds up totals."""

import asyncio
import zlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from sim.pipeline.wire import Outdated, SimFiles, Wire
from sim.world import SimLoop
from tidemill.pipeline.lifecycle import WorkerLoop
from tidemill.pipeline.log.file import FileRef
from tidemill.pipeline.log.root import StepRecord, Version
from tidemill.pipeline.log.segment import SegmentRef

if TYPE_CHECKING:
    from sim.pipeline.checks import PipelineChecks
    from sim.pipeline.owner import SimOwner

T = TypeVar("T")
Rows = list[tuple[str, int | None]]
"""Keys with weights. A weight of None is what makes a step fail."""

Totals = dict[str, int]
Change = tuple[str, int, int]
"""A key, its total before and its total now."""


class Part(Struct, frozen=True):
    """What one pipeline worker puts out for a step; with `error`, nothing."""

    segments: tuple[SegmentRef, ...] = ()
    error: str = ""


def add_up(totals: Totals, rows: Rows) -> tuple[Totals, list[Change]]:
    """The new totals, and what changed. Raises `ValueError` for a row that cannot be added."""
    after = dict(totals)
    for key, weight in rows:
        if weight is None:
            raise ValueError(f"[BAD_WEIGHT] {key}")
        after[key] = after.get(key, 0) + weight
    changed = sorted(key for key in after if after[key] != totals.get(key, 0))
    return after, [(key, totals.get(key, 0), after[key]) for key in changed]


def owner_of(key: str, workers: int) -> int:
    return zlib.crc32(key.encode()) % workers


class SimBody:
    """Adds up the totals of the keys that belong to one pipeline worker."""

    def __init__(self, index: int, attempt: int, owner: "SimOwner", loop: SimLoop) -> None:
        self.index = index
        self.attempt = attempt
        self.owner = owner
        self.loop = loop
        self.files: SimFiles = owner.files
        self.wire: Wire = owner.wire
        self.checks: PipelineChecks = owner.checks
        self._totals: Totals = {}
        self._after: Totals = {}
        self._version = 0

    async def versions(self) -> range:
        versions = await self._ask(self.owner.serve_versions)
        return range(versions[0].number, versions[-1].number + 1)

    async def open(self, version: int) -> int:
        opened: Version = await self._ask(self.owner.serve_version, version)
        names: list[FileRef] = []
        if opened.file is not None:
            names = msgspec.json.decode(await self.files.read(opened.file), type=list[FileRef])
        self._totals = {}
        for ref in names:
            found: Totals = msgspec.json.decode(await self.files.read(ref))
            self._totals |= {key: total for key, total in found.items() if self._mine(key)}
        self._version = version
        return opened.step

    async def read(self, step: int, token: asyncio.Event) -> tuple[StepRecord, Rows] | None:
        while True:
            found = await self._ask(self.owner.serve_read, step)
            if found is not None:
                record, segments = found
                rows: Rows = []
                for segment in segments:
                    rows += msgspec.json.decode(await self.files.read(segment.file), type=Rows)
                return record, [(key, weight) for key, weight in rows if self._mine(key)]
            if token.is_set():
                return None

    async def run(self, step: int, given: tuple[StepRecord, Rows]) -> Part | None:
        record, rows = given
        if record.state == "aborted":
            return None
        self.checks.runs(record)
        await asyncio.sleep(self.owner.random.random() * 0.2)
        try:
            self._after, changes = add_up(self._totals, rows)
        except ValueError as error:
            return Part(error=str(error))
        name = f"out/t{self.owner.term}/a{self.attempt}/s{step}/w{self.index}"
        ref = await self.files.put(name, msgspec.json.encode(changes))
        total = sum(zlib.crc32(repr(change).encode()) for change in changes)
        return Part((SegmentRef("totals", len(changes), ref, total),))

    async def write(self, step: int, output: Part | None) -> None:
        if output is not None and await self._ask(self.owner.serve_write, self.index, step, output):
            self._totals = self._after

    async def commit(self, step: int) -> None:
        self.checks.commits(self.owner.term, self.attempt, self._version + 1, step)
        name = f"state/t{self.owner.term}/a{self.attempt}/s{step}/w{self.index}"
        ref = await self.files.put(name, msgspec.json.encode(self._totals))
        await self._ask(self.owner.serve_commit, self.index, step, ref)

    def _mine(self, key: str) -> bool:
        return owner_of(key, self.owner.workers) == self.index

    async def _ask(self, serve: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        return await self.wire.call(self.loop, self.owner.loop, lambda: serve(self.attempt, *args))


class SimWorker:
    """A machine with a pipeline worker. Requests are numbered; a repeat gets the answer of the first."""

    def __init__(self, name: str, loop: SimLoop, body: SimBody) -> None:
        self.name = name
        self.loop = loop
        self.cycle = WorkerLoop(body)
        self._latest = 0
        self._answer: asyncio.Task[Any] | None = None

    async def handle(self, number: int, verb: str, *args: int) -> Any:
        if number < self._latest:
            raise Outdated(f"request {number} comes after {self._latest}")
        if number > self._latest or self._answer is None:
            self._latest = number
            self._answer = self.loop.create_task(getattr(self.cycle, verb)(*args))
        return await asyncio.shield(self._answer)


class SimHandle:
    """A pipeline worker as its owner sees it. Giving it up does not always reach it: it may live on."""

    def __init__(self, index: int, owner: "SimOwner", launch: Callable[[int], SimWorker]) -> None:
        self._index = index
        self._owner = owner
        self._launch = launch
        self._number = 0
        self.worker = launch(index)

    async def versions(self) -> range:
        found: range = await self._request("versions")
        return found

    async def start(self, version: int) -> None:
        await self._request("start", version)

    async def pause(self) -> int:
        found: int = await self._request("pause")
        return found

    async def stop(self, step: int) -> None:
        await self._request("stop", step)

    async def abandon(self) -> None:
        if self._owner.random.random() < 0.5:
            self.worker.loop.crashed = True
        self.worker = self._launch(self._index)

    async def _request(self, verb: str, *args: int) -> Any:
        self._number += 1
        number, worker = self._number, self.worker
        return await self._owner.wire.call(
            self._owner.loop, worker.loop, lambda: worker.handle(number, verb, *args)
        )
