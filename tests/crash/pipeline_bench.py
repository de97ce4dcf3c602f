"""A pipeline to do things to: the circuit of the crash tests over a store in memory."""

from pathlib import Path
from typing import Any

import msgspec

from crash.pipeline_circuit import EVENTS, FRESH, ORDERS, PLANS, events, missing_event, orders
from tidemill.base.bridge import LoopThread
from tidemill.base.ids import new_token
from tidemill.pipeline.engine import FOLDER, Engine, Place, Policy
from tidemill.pipeline.errors import StepFailed
from tidemill.pipeline.log.root import ROOTS, StepRecord
from tidemill.pipeline.log.segment import SegmentRef, write_segment
from tidemill.pipeline.plan.node import Source, View
from tidemill.pipeline.runtimes.inline import InlineRuntime
from tidemill.pipeline.state.files import RunFiles
from tidemill.pipeline.state.spec import Part, StateSpec
from tidemill.pipeline.state.spine import Spine
from tidemill.pipeline.task import Report, StepTask
from tidemill.pipeline.testing import Bag, bag, rows_of
from tidemill.pipeline.zset import ZSet
from tidemill.store import OutcomeUnknown, Store, Unavailable, open_store
from tidemill.store.blobs import open_blobs


class LossyStore:
    """A store that can be told to lose the answer to the next write of a root, and then to go away."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.losing = self.away = False
        self.time = 1000

    async def now(self) -> int:
        return self.time

    async def replace(self, collection: Any, *args: Any, **options: Any) -> int:
        revision = await self._store.replace(collection, *args, **options)
        if self.losing and collection is ROOTS:
            self.losing, self.away = False, True
            raise OutcomeUnknown("the answer was lost")
        return revision

    async def get(self, *args: Any, **options: Any) -> Any:
        if self.away:
            raise Unavailable("the store is away")
        return await self._store.get(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class FailingRuntime(InlineRuntime):
    """Fails, when told to, as a machine does or with another error, after all has been done."""

    broken = False
    error: Exception | None = None

    def run(self, task: StepTask, deadline_s: float) -> tuple[Report, ...]:
        reports = super().run(task, deadline_s)
        if self.broken or self.error is not None:
            raise self.error or StepFailed("a machine is gone")
        return reports


class Bench:
    """The pipeline. Opened again, it has another owner."""

    runtime_type = FailingRuntime
    policy = Policy(commit_steps=1000)

    def __init__(self, folder: Path, loop: LoopThread) -> None:
        self.store = LossyStore(open_store("memory://"))
        loop.run(self.store.open())
        blobs = open_blobs(folder.as_uri(), create=True)
        store: Any = self.store
        self.place = Place(store, blobs, str(folder), loop.run)
        self.appended = 0
        self.open()
        self.engine.change_plan(PLANS[0], FRESH[0])

    def open(self) -> None:
        files = RunFiles(self.place.blobs)
        self.runtime = self.runtime_type(files, 2)
        self.engine = Engine(self.place, self.runtime, files, self.policy)
        self.engine.open("p", {})

    def append(self) -> int:
        """The next rows, always the same in the same order; their offset."""
        self.appended += 1
        made = ((source, make(self.appended - 1)) for source, make in ((ORDERS, orders), (EVENTS, events)))
        return self.engine.append([self._segment(source, rows) for source, rows in made]).offset

    def append_bad(self) -> int:
        """Rows that make every step fail which has them."""
        return self.engine.append([self._segment(EVENTS, missing_event())]).offset

    def _segment(self, source: Source, rows: ZSet) -> SegmentRef:
        name = f"{FOLDER}/in/{new_token()}"
        return write_segment(self.place.blobs, name, source.table, rows, source.shard_key)

    def step(self) -> StepRecord:
        self.append()
        return self.engine.step()

    @property
    def names(self) -> set[str]:
        """Of all files."""
        return {entry.name for entry in self.place.blobs.entries()}

    @property
    def views(self) -> dict[str, Bag]:
        circuit = self.engine.plan.circuit
        return {
            node.name: self._rows(mark, node)
            for mark, node in zip(circuit.fingerprints, circuit.nodes, strict=True)
            if isinstance(node, View)
        }

    def _rows(self, mark: str, view: View) -> Bag:
        spec = StateSpec(mark, view.schema, tuple(range(len(view.schema))))
        runs = [msgspec.structs.replace(run, lane=None) for run in self.engine.runs.of(mark)]
        spine = Spine(spec, Part(), RunFiles(self.place.blobs), runs)
        return bag(row for piece in spine.scan() for row in rows_of(piece))
