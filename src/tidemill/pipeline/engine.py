"""One pipeline in the hands of its owner, from open to close.

    append ─► input log ─► step: assign, run, write output, adopt runs ─► now and then: commit, merge, sweep

A step changes nothing that counts until its output is written, which is one compare-and-set on the root
under the owner's term. So a crash anywhere leaves the last version, the steps since then in the log, and
files that nobody refers to: opening reads the version and runs those steps again.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from tidemill.base.errors import TidemillError
from tidemill.base.ids import new_token
from tidemill.base.log import get_logger
from tidemill.pipeline.errors import ForeignState, Forgotten, NotOpen, StepAborted, StepFailed
from tidemill.pipeline.failpoint import reach
from tidemill.pipeline.forgetting import horizons
from tidemill.pipeline.live import LiveRuns
from tidemill.pipeline.log.file import BlobFiles
from tidemill.pipeline.log.head import LogHead, Receipt
from tidemill.pipeline.log.input import InputLog
from tidemill.pipeline.log.output import OutputLog
from tidemill.pipeline.log.root import (
    Failure,
    Root,
    RootOwner,
    StepRecord,
    kept_versions,
    needed_offset,
)
from tidemill.pipeline.log.segment import SegmentRef
from tidemill.pipeline.merging import Merging
from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.plan.node import Temporal
from tidemill.pipeline.runtimes.runtime import Runtime
from tidemill.pipeline.state.database import Database
from tidemill.pipeline.state.files import RunFiles
from tidemill.pipeline.state.forget import Forget
from tidemill.pipeline.state.manifest import read_manifest
from tidemill.pipeline.state.sweep import clear, sweep
from tidemill.pipeline.step import Limits, Outcome, Pending, abort, discard, pending, replan, to_replay
from tidemill.pipeline.task import Report, StepTask
from tidemill.pipeline.timing import StepTiming
from tidemill.pipeline.versions import RootPins, RootVersions, put_runs, runs_of
from tidemill.store import Store
from tidemill.store.blobs import BlobError, BlobMissing, BlobRef, Blobs

log = get_logger("tidemill.pipeline.engine")
T = TypeVar("T")

FOLDER = "state"
PLAN_FORMAT = 1


class Plan(msgspec.Struct, frozen=True):
    """What a pipeline computes: its circuit, and what is known of its tables and views (for the caller)."""

    circuit: Circuit = Circuit()
    catalog: Any = None
    format: int = PLAN_FORMAT


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pipeline lives: documents in a store under a key, files in blobs.

    `run` runs a coroutine of the store and waits for it.
    """

    store: Store
    blobs: Blobs
    key: str
    run: Callable[[Coroutine[Any, Any, Any]], Any]


@dataclass(frozen=True, slots=True)
class Policy:
    """How a pipeline is run. `commit_steps` and `commit_s`: a version at the latest after so much.

    `tick_s`: a pipeline that runs by itself, and has rows that come or go with the clock, makes a step at the
    latest after so much.
    """

    deadline_s: float = 600.0
    commit_steps: int = 100
    commit_s: float = 60.0
    grace_s: float = 600.0
    round_rows: int = 1_000_000
    step_rows: int = 4_000_000
    tick_s: float = 1.0


class Engine:
    """The owner of a pipeline. One caller at a time; appends may come from any thread."""

    def __init__(self, place: Place, runtime: Runtime, files: RunFiles, policy: Policy | None = None) -> None:
        self.place = place
        self.runtime = runtime
        self.files = files
        self.policy = policy or Policy()
        self.plan = Plan()
        self.runs = LiveRuns()
        self.timing = StepTiming()
        self._owner = RootOwner(place.store, place.key, BlobFiles(place.blobs), folder=FOLDER)
        self._head = LogHead(place.store, place.key, BlobFiles(place.blobs), folder=FOLDER, clock=_now_ms)
        limits = Limits(rows=self.policy.step_rows)
        self._input = InputLog(self._head, self._owner, clock=place.store.now, limits=limits)
        self._output = OutputLog(self._owner, BlobFiles(place.blobs), folder=FOLDER)
        self.pins = RootPins(self._owner, place.blobs, self._run)
        self._merging = Merging(runtime, place.blobs, FOLDER)
        self._fresh: frozenset[str] = frozenset()
        self._prepared = ""
        self._steps_since_commit = 0
        self._committed_at = self._swept_at = time.monotonic()

    # Open and close

    def open(self, pipeline: str, settings: Mapping[str, str]) -> None:
        """Become the owner: take the term, read the newest version, run the steps since then again.

        A step that was under way is left to `step`: were it to fail again, that would be the place to say so.
        Creates the pipeline if there is none. Raises `WrongSettings` or `ForeignState` when this is not it.
        """
        self._run(self._head.load())  # one of a newer release is refused before anything is changed
        root = self._run(self._owner.take_over(Root(pipeline, dict(settings))))
        reach("engine.open.after_take_over")
        try:
            with self._owned():
                self._load(root)
        except BlobMissing as error:
            raise ForeignState(f"not the files of this pipeline, or some are gone: {error}") from error

    def _load(self, root: Root) -> None:
        self._load_plan(root)
        self._fresh = frozenset((root.catalog or {}).get("fresh", ()))
        self._versions = RootVersions(self._owner, self._run)
        self._database = Database(self.place.blobs, self._versions, FOLDER, root.term, root.pipeline)
        self._database.open(self._database.versions()[-1])
        self.runs = self._of_plan(runs_of(self._database))
        records = self.records(root.version.step, root.steps.next)
        self._replay(to_replay(root.version, records))
        self.runs = self.runs.at(root.last)

    def close(self) -> None:
        """Commit what was done since the last version, so that the next open has nothing to repeat.

        What earlier owners left and nobody needs is deleted: who opens a pipeline for a moment, now and then,
        has no other time for it.
        """
        if self._steps_since_commit:
            self.commit()
        self._attend(self._sweep)
        self.abandon()

    def abandon(self) -> None:
        """Stop without a commit, as a crash would."""
        self._merging.stop()
        self.runtime.close()

    @property
    def root(self) -> Root:
        """The root document. Raises `NotOpen` once another owner has taken over."""
        return self._owner.root

    # Input

    def append(
        self, segments: Sequence[SegmentRef], *, producer: str | None = None, sequence: int | None = None
    ) -> Receipt:
        """Append published segments, all or none; durable on return."""
        return self._run(self._head.append(segments, producer=producer, sequence=sequence))

    def appended(self) -> int:
        """How many appends there ever were: the offset of the next."""
        return self._run(self._head.load()).entries.next

    def pending(self) -> list[Pending]:
        """The appends that no step has taken, with the error of those whose step was aborted."""
        waiting = self._run(_collect(self._head.entries(self.root.position)))
        return pending(self.root, waiting)

    def discard(self, offset: int) -> None:
        """Have no step take this append. Raises `NoSuchName` when it is not pending, `NotNow` in mid-step."""
        appended = self.appended()
        self._run(self._owner.update(lambda root: discard(root, offset, appended)))

    # Steps

    def step(self, clock: int | None = None) -> StepRecord:
        """Take what was appended and bring every view up to date; numbered even when there is nothing.

        `clock` is the step's time in milliseconds since 1970, instead of the store's; it never goes back.
        Raises `StepAborted` when the data made it fail: recorded, and the views are as they were. Raises
        `StepFailed` when the machinery did: the same step is tried again by the next call.
        """
        with self._owned():
            self.resume()
            record = self._run(self._input.assign(fills=self.unfilled, clock=clock))
            reach("engine.step.after_assign")
            done = self._settle(record)
        self._attend(self._commit_if_due)
        self.tidy()
        return done

    def resume(self) -> int:
        """Be where the log is, also after a failure; the step that comes next."""
        with self._owned():
            self._adopt_merged()
            self._catch_up()
        return self.runs.step

    async def read(self, step: int, token: asyncio.Event, *, again: bool = False) -> StepRecord | None:
        """The next step, assigned once there is something to do; None when the token is set before that.

        An append that has failed alone is not tried before it is discarded, unless `again`.
        """
        timed = any(isinstance(node, Temporal) for node in self.plan.circuit.nodes)
        tick_s = self.policy.tick_s if timed and not self.unfilled else None
        return await self._input.read(step, token, fills=self.unfilled, again=again, tick_s=tick_s)

    def settle(self, record: StepRecord) -> StepRecord:
        """Run an assigned step to its end, whatever that is. Raises like `step`."""
        with self._owned():
            return self._settle(record)

    def records(self, start: int, stop: int) -> list[StepRecord]:
        """The records of these steps that are kept."""
        return self._run(_collect(self._owner.records(start, stop)))

    def _settle(self, record: StepRecord) -> StepRecord:
        started = time.perf_counter()
        try:
            reports = self._attempt(record)
        except StepAborted as error:
            self._abort(record, error)
            raise
        reach("engine.step.after_run")
        outputs = [segment for report in reports for segment in report.outputs.values()]
        self.place.blobs.sync([segment.blob.name or "" for segment in outputs])
        reach("engine.step.after_sync")
        outcome = _outcome(reports, time.perf_counter() - started, self.runtime.name)
        self._run(self._output.write(record.number, outputs, outcome))
        reach("engine.step.after_output")
        self._adopt(record, reports)
        self.timing = StepTiming(self.plan.circuit, outcome.seconds, reports)
        return next(found for found in reversed(self.root.steps.tail) if found.number == record.number)

    def _attempt(self, record: StepRecord) -> tuple[Report, ...]:
        if self._prepared != self.plan.circuit.digest:
            self.runtime.prepare(self.plan.circuit)
            self._prepared = self.plan.circuit.digest
        try:
            reports = self.runtime.run(self._task(record), self.policy.deadline_s)
        except (BlobError, StepFailed):
            self._attend(self._clear, record.number)
            raise
        failed = [report for report in reports if report.error]
        if failed:
            first = min(failed, key=lambda report: (report.stage, report.worker))
            error = StepAborted(first.error, view=first.view, operator=first.operator)
            error.node = first.node
            raise error
        return reports

    def _task(self, record: StepRecord) -> StepTask:
        by_table: dict[str, list[SegmentRef]] = {}
        for segment in self._run(self._input.segments(record)):
            by_table.setdefault(segment.table, []).append(segment)
        fingerprints = self.plan.circuit.fingerprints
        return StepTask(
            folder=FOLDER,
            term=self.root.term,
            step=record.number,
            clock_s=record.clock / 1000,
            segments={table: tuple(segments) for table, segments in by_table.items()},
            runs=self.runs.by_state,
            fresh=frozenset(at for at, mark in enumerate(fingerprints) if mark in record.fills),
            round_rows=self.policy.round_rows,
            since_s=record.since / 1000,
            highest=record.highest,
            forget=self._forget(record.highest),
        )

    def _abort(self, record: StepRecord, error: StepAborted) -> None:
        fingerprints = self.plan.circuit.fingerprints
        filling = error.node >= 0 and fingerprints[error.node] in record.fills
        error.step, error.offsets = record.number, () if filling else record.offsets
        failure = Failure(str(error), error.view, error.operator)
        self._run(self._owner.update(lambda root: abort(root, record.number, failure, blame=not filling)))
        error.tell(filling=filling)
        self.runs = self.runs.at(record.number + 1)
        self._attend(self._clear, record.number)

    def _adopt(self, record: StepRecord, reports: Sequence[Report]) -> None:
        runs = self.runs
        for report in reports:
            runs = runs.with_changes(report.added, report.removed)
        self.runs = runs.at(record.number + 1)
        self._fresh -= frozenset(record.fills)
        self._steps_since_commit += 1

    @property
    def unfilled(self) -> tuple[str, ...]:
        """The nodes that the next step fills with what their inputs already hold."""
        return tuple(sorted(self._fresh))

    def _replay(self, records: Sequence[StepRecord]) -> None:
        """Run the steps that are done again. Their output is there already; it is compared."""
        for record in records:
            if record.state == "done":
                self._settle(record)

    def _catch_up(self) -> None:
        """Find out about a write whose answer was lost. A step that it made done is not in the state yet."""
        root = self._run(self._owner.update(lambda root: root))
        if self.runs.step < root.last:
            self._replay(self.records(self.runs.step, root.last))
            self.runs = self.runs.at(root.last)

    # Plans

    def change_plan(self, plan: Plan, fresh: frozenset[str]) -> None:
        """Compute something else from the next step on; the nodes with these fingerprints start empty.

        A version is committed first, so that no step is ever run again with another circuit than its own.
        """
        self.runtime.check(plan.circuit)
        self.commit()
        name = f"{FOLDER}/t{self.root.term}/s{self.root.last}/plan-{new_token()[:13]}"
        ref = self.place.blobs.put(name, msgspec.json.encode(plan))
        reach("engine.plan.after_blob")
        unfilled = sorted((self._fresh | fresh) & set(plan.circuit.fingerprints))
        catalog = {"plan": ref.to_json(), "fresh": unfilled}
        self._run(self._owner.update(lambda root: replan(root, catalog, unfilled)))
        reach("engine.plan.after_root")
        self.plan, self._fresh = plan, frozenset(unfilled)
        self.runs = self._of_plan(self.runs)

    def _of_plan(self, runs: LiveRuns) -> LiveRuns:
        """The runs of the plan's nodes; a fresh one starts empty, whatever one like it has left behind."""
        marks = set(self.plan.circuit.fingerprints) - self._fresh
        return runs.only(state for state in runs.by_state if state.partition(".")[0] in marks)

    def _load_plan(self, root: Root) -> None:
        if root.catalog:
            found = msgspec.json.decode(self.place.blobs.read(BlobRef.from_json(root.catalog["plan"])))
            if found["format"] != PLAN_FORMAT:
                raise ForeignState(
                    f"the plan has format {found['format']}, and this release reads {PLAN_FORMAT}"
                )
            self.plan = msgspec.convert(found, Plan)

    # Versions, merges, sweeps

    def commit(self) -> int:
        """Make the state as it is now a version, durable on return; its number. Safe to repeat."""
        self._catch_up()
        root = self.root
        if root.version.step == root.last and root.version.manifest is not None:
            return root.version.number
        put_runs(self._database, self.runs)
        self._database.set_step(root.last)
        self._versions.catalog = {**root.catalog, "fresh": sorted(self._fresh)} if root.catalog else None
        self._database.commit(
            close=False,
            offsets={"log": root.position},
            circuit=(root.catalog or {}).get("plan"),
            workers=self.runtime.workers,
        )
        reach("engine.commit.after_root")
        self._steps_since_commit, self._committed_at = 0, time.monotonic()
        self._run(self._head.trim(needed_offset(self.root)))
        reach("engine.commit.after_trim")
        return self.root.version.number

    @property
    def commit_due_s(self) -> float | None:
        """In how many seconds a version is due; None when nothing was done since the last."""
        if not self._steps_since_commit:
            return None
        left = self._committed_at + self.policy.commit_s - time.monotonic()
        return left if self._steps_since_commit < self.policy.commit_steps else 0.0

    def changes(self, view: str, since: int, until: int) -> list[SegmentRef]:
        """What the steps after `since`, up to and with `until`, put out for a view.

        Raises `Forgotten` when some of it is not kept.
        """
        found = self._run(self._output.read_since(view, since, until))
        return [segment for change in found for segment in change.segments]

    def sweep(self) -> tuple[str, ...]:
        """Delete the files that nobody needs; say which. Files of this term are kept for a while first."""
        needed, now = self._needed(), self.place.blobs.now()
        return sweep(
            self.place.blobs, FOLDER, needed, term=self.root.term, grace_s=self.policy.grace_s, now=now
        )

    def _clear(self, step: int) -> None:
        """Delete what a failed attempt at a step has written: on a full disk the next one needs the room."""
        clear(self.place.blobs, FOLDER, self._needed(), term=self.root.term, step=step)

    def _needed(self) -> set[str]:
        """The names of all files that something refers to."""
        kept = {*self.runs.names(), *self._merging.names(), *self._run(_collect(self._owner.names()))}
        kept.update(self._run(_collect(self._head.names())))
        for version in kept_versions(self.root):
            if version.manifest is not None:
                manifest = read_manifest(self.place.blobs, version.manifest)
                kept |= manifest.names | {_plan_name(manifest.circuit)}
        kept.add(_plan_name((self.root.catalog or {}).get("plan")))
        return kept

    def tidy(self) -> None:
        """After a step: sweep and merge when it is time."""
        self._attend(self._sweep_if_due)
        self._attend(self._merge)

    def _attend(self, chore: Callable[..., None], *about: int) -> None:
        """Do what is due now and then. Its failure is not that of the step; it is due after the next."""
        try:
            with self._owned():
                chore(*about)
        except NotOpen:
            raise
        except (TidemillError, OSError) as error:
            log.warning("engine.chore_failed", chore=chore.__name__.strip("_"), error=str(error))

    def _commit_if_due(self) -> None:
        if (left := self.commit_due_s) is not None and left <= 0:
            self.commit()

    def _sweep_if_due(self) -> None:
        if time.monotonic() - self._swept_at >= self.policy.grace_s / 4:
            self._sweep()
            self._swept_at = time.monotonic()

    def _sweep(self) -> None:
        self.sweep()
        self._run(self._owner.confirm())  # it may take long: who is not the owner any more is to know

    def _merge(self) -> None:
        self._adopt_merged()
        # Named after the last step that is settled, its files are none of an attempt at the next.
        self._merging.begin(self.runs, self.root.term, self.root.last - 1, self._forget(self.root.highest))

    def _forget(self, highest: Mapping[str, int]) -> dict[str, Forget]:
        """What no step looks up once times are that high, by the fingerprint of the operator."""
        if not highest:
            return {}
        found = {mark: each.at(highest) for mark, each in horizons(self.plan.circuit).items()}
        return {mark: forget for mark, forget in found.items() if forget is not None}

    def _adopt_merged(self) -> None:
        """Take the result of background merges; wait for it when too many runs have piled up."""
        self.runs = self._merging.adopt(self.runs)

    @contextmanager
    def _owned(self) -> Iterator[None]:
        """Say that another owner took over, rather than what came of it: it sweeps what it needs no more."""
        try:
            yield
        except (BlobError, Forgotten, StepFailed):
            self._run(self._owner.confirm())
            raise

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        found: T = self.place.run(work)
        return found


def _outcome(reports: Sequence[Report], seconds: float, runtime: str) -> Outcome:
    """What all pipeline workers tell of a step."""
    late: Counter[str] = Counter()
    highest: dict[str, int] = {}
    for report in reports:
        late.update(report.late)
        highest |= {label: max(at, highest.get(label, at)) for label, at in report.highest.items()}
    return Outcome(seconds, runtime, dict(late), highest)


async def _collect(items: AsyncIterator[T]) -> list[T]:
    return [item async for item in items]


def _plan_name(ref: Any) -> str:
    return BlobRef.from_json(ref).name or "" if ref else ""


def _now_ms() -> int:
    return int(time.time() * 1000)
