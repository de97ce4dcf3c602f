"""A pipeline that goes through a fixed list of acts, in a process that is made to be killed.

python -m crash.pipeline_child

It reads a `Job` as JSON from each line of its input, runs it in a child process, and prints how that ended.
Forked with everything loaded, a child starts in milliseconds. The child adds a line to a file in its folder
for each act that it has done; started again after so many, it repeats the act that it may have been in. At
the end it writes `report.json`: all that anybody can see of the pipeline.
"""

import asyncio
import contextlib
import functools
import itertools
import json
import os
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from crash.pipeline_beside import BesideRuntime
from crash.pipeline_circuit import (
    BULK,
    EVENTS,
    FRESH,
    ORDERS,
    PLANS,
    events,
    many_events,
    missing_event,
    one_event,
    orders,
)
from tidemill.base.bridge import LoopThread
from tidemill.base.ids import new_token
from tidemill.pipeline import failpoint
from tidemill.pipeline.engine import FOLDER, Engine, Place, Policy
from tidemill.pipeline.errors import NotOpen, StepAborted
from tidemill.pipeline.log.segment import SegmentRef, read_segment, sum_of, write_segment
from tidemill.pipeline.plan.node import Source, View
from tidemill.pipeline.runtimes.inline import InlineRuntime
from tidemill.pipeline.state import merges
from tidemill.pipeline.state.files import RunFiles, term_of
from tidemill.pipeline.state.manifest import read_manifest
from tidemill.pipeline.state.spec import Part, StateSpec
from tidemill.pipeline.state.spine import Spine
from tidemill.pipeline.zset import ZSet, concat
from tidemill.store import open_store
from tidemill.store.blobs import open_blobs

BURST = 140
"""More appends at once than the tail of a log holds, so that pages are written with them."""


OUSTED = 3
"""How a child ends when another owner has taken over."""


@dataclass(frozen=True, slots=True)
class Act:
    """Something that a pipeline is made to do: a method of `Child`."""

    name: str
    number: int = 0
    workers: int = 0


def _scenario() -> Iterator[Act]:
    """Every kind of act, several times, between versions and since the last one."""
    made = _Numbered()
    yield from (Act("open", workers=1), Act("plan", 0), made.append(), made.step())
    yield from (made.append(), made.load(), made.step())
    yield from (Act("commit"), made.append(), made.load(), made.step())
    yield from (Act("append_burst"), made.load(), made.step())
    yield from (Act("abandon", workers=2), made.append(), made.step(), Act("commit"))
    yield from (made.append(), made.step(), Act("plan", 1), made.append(), made.step())
    yield from (Act("reopen", workers=1), Act("sweep"), Act("append_bad"), made.step(), Act("discard"))
    yield from (made.append(), made.step(), Act("commit"), Act("sweep"), made.append(), made.step())
    yield Act("close")


def _merging_scenario() -> Iterator[Act]:
    """So many rows that there is nearly always something to merge, whatever else is done."""
    made = _Numbered()
    yield from (Act("open", workers=1), Act("plan", 0))
    between = {3: Act("commit"), 4: Act("sweep"), 5: Act("plan", 1), 7: Act("commit"), 8: Act("sweep")}
    for number in range(10):
        yield from (made.append(), made.load(), made.step())
        if number in between:
            yield between[number]
    yield Act("close")


class _Numbered:
    """Acts of which each has its number."""

    def __init__(self) -> None:
        self._numbers = {name: itertools.count() for name in ("append", "append_bulk", "step")}

    def append(self) -> Act:
        return Act("append", next(self._numbers["append"]))

    def load(self) -> Act:
        return Act("append_bulk", next(self._numbers["append_bulk"]))

    def step(self) -> Act:
        return Act("step", next(self._numbers["step"]))


SCENARIO = tuple(_scenario())
MERGING = tuple(_merging_scenario())


class Job(msgspec.Struct, frozen=True):
    """What one child does: the acts from `start` on. With `count`, it notes how often it passes a point.

    With `merging`, the acts are those of `MERGING`; with `beside`, merges run beside the steps.
    """

    folder: str
    store: str
    start: int = 0
    stop: int = sys.maxsize
    said: str = "said"
    failpoint: str = ""
    pausepoint: str = ""
    count: bool = False
    merging: bool = False
    beside: bool = False

    @property
    def acts(self) -> tuple[Act, ...]:
        return MERGING if self.merging else SCENARIO


class Child:
    """The pipeline in one process."""

    def __init__(self, job: Job) -> None:
        self.job = job
        if job.merging:
            merges.UNIT_ROWS = BULK  # a merge is of several units, and lasts for as many steps
        self.folder = Path(job.folder)
        loop = LoopThread().start()
        store = open_store(job.store)
        loop.run(store.open())
        self.blobs = open_blobs((self.folder / "blobs").as_uri(), create=True)
        self.place = Place(store, self.blobs, "p", loop.run)
        self.engine: Engine | None = None

    def run(self) -> None:
        """Do the acts from `start` on, and say so after each."""
        if self.job.start:
            self.open(next(act for act in reversed(self.job.acts[: self.job.start]) if act.workers))
        with (self.folder / self.job.said).open("a") as said:
            for number, act in enumerate(self.job.acts[self.job.start : self.job.stop], self.job.start):
                getattr(self, act.name)(act)
                said.write(f"{number} {act.name}\n")
                said.flush()

    # Acts, each safe to repeat

    def open(self, act: Act) -> None:
        files = RunFiles(self.blobs)
        policy = Policy(commit_steps=1000, commit_s=1e9, grace_s=1e9)
        runtime = (BesideRuntime if self.job.beside else InlineRuntime)(files, act.workers)
        self.engine = Engine(self.place, runtime, files, policy)
        self.engine.open("p", {"zone": "UTC"})

    def reopen(self, act: Act) -> None:
        self.close(act)
        self.open(act)

    def abandon(self, act: Act) -> None:
        """Leave the steps since the last version for the next owner to run again."""
        self._end_merge()
        self.at.abandon()
        self.open(act)

    def plan(self, act: Act) -> None:
        if self.at.plan.circuit.digest != PLANS[act.number].circuit.digest:
            self.at.change_plan(PLANS[act.number], FRESH[act.number])

    def append(self, act: Act) -> None:
        """The first is of many segments, more than a document lists."""
        staged = [self._stage(ORDERS, orders(act.number)), self._stage(EVENTS, events(act.number))]
        if not act.number:
            staged += [self._stage(EVENTS, one_event(at)) for at in range(4)]
        self.at.append(staged, producer="appends", sequence=act.number)

    def append_bulk(self, act: Act) -> None:
        staged = self._stage(EVENTS, many_events(act.number))
        self.at.append([staged], producer="bulk", sequence=act.number)

    def append_burst(self, _: Act) -> None:
        """By many clients at once; in the order of their numbers all the same."""
        staged = [self._stage(EVENTS, one_event(at)) for at in range(10)]
        head = self.at._head

        async def all_at_once() -> None:
            await asyncio.gather(
                *(head.append([staged[at % 10]], producer=f"client {at}", sequence=0) for at in range(BURST))
            )

        self.place.run(all_at_once())

    def append_bad(self, _: Act) -> None:
        self.at.append([self._stage(EVENTS, missing_event())], producer="bad", sequence=0)

    def discard(self, _: Act) -> None:
        for found in self.at.pending():
            if found.entry.producer == "bad":
                self.at.discard(found.entry.offset)

    def step(self, act: Act) -> None:
        with contextlib.suppress(StepAborted):
            if self.at.root.last <= act.number:
                self.at.step()
        if self.at.root.last != act.number + 1:
            raise AssertionError(f"step {act.number} was made; {self.at.root.last} is the next to be settled")

    def commit(self, _: Act) -> None:
        self.at.commit()

    def sweep(self, _: Act) -> None:
        self.at.sweep()

    def close(self, _: Act) -> None:
        self._end_merge()
        self.at.close()

    def _end_merge(self) -> None:
        """Let a merge that waits for the next step break off after the unit that it is in."""
        if isinstance(self.at.runtime, BesideRuntime):
            self.at._merging._stopped.set()
            self.at.runtime.let_one_unit_go()

    def _stage(self, source: Source, rows: ZSet) -> SegmentRef:
        name = f"{FOLDER}/in/{new_token()}"
        return write_segment(self.blobs, name, source.table, rows, source.shard_key)

    @property
    def at(self) -> Engine:
        assert self.engine is not None
        return self.engine

    # What there is in the end

    def report(self) -> dict[str, Any]:
        """The pipeline as a new owner finds it, before and after everything unneeded is swept away."""
        self.open(Act("open", workers=2))
        engine = self.at
        engine.sweep()
        unneeded = {entry.name for entry in self.blobs.entries(FOLDER)} - self._referred()
        old = [name for name in unneeded if (term_of(name, FOLDER) or engine.root.term) < engine.root.term]
        engine.policy = Policy(grace_s=-1.0)
        engine.sweep()
        there = {entry.name for entry in self.blobs.entries(FOLDER)}
        return {
            "rows": {
                node.name if isinstance(node, View) else node.table: rows for node, rows in self._rows()
            },
            "steps": [self._step_report(record) for record in engine.root.steps.tail],
            "receipts": self._receipts(),
            "version": [engine.root.version.step, engine.root.version.position],
            "missing": sorted(self._referred() - there),
            "orphans": sorted(there - self._referred()),
            "orphans of lower terms": sorted(old),
        }

    def _rows(self) -> Iterator[tuple[View | Source, list[Any]]]:
        circuit = self.at.plan.circuit
        for mark, node in zip(circuit.fingerprints, circuit.nodes, strict=True):
            if isinstance(node, View | Source):
                spec = StateSpec(mark, node.schema, tuple(range(len(node.schema))))
                if isinstance(node, Source):
                    spec = StateSpec(mark, node.schema, node.shard_key)
                runs = [msgspec.structs.replace(run, lane=None) for run in self.at.runs.of(mark)]
                pieces = list(Spine(spec, Part(), self.at.files, runs).scan())
                yield node, _summary(concat(pieces, node.schema))

    def _step_report(self, record: Any) -> list[Any]:
        _, segments = self.place.run(self.at._output.read(record.number))
        views: dict[str, Counter[str]] = {}
        for segment in segments:
            for row, weight in _plain(read_segment(self.blobs, segment)):
                views.setdefault(segment.table, Counter())[repr(row)] += weight
        changes = {
            view: sorted([row, weight] for row, weight in rows.items() if weight)
            for view, rows in sorted(views.items())
        }
        return [
            record.number,
            record.state,
            list(record.offsets),
            record.rows_in,
            len(record.fills),
            {view: rows for view, rows in changes.items() if rows},
        ]

    def _receipts(self) -> dict[str, Any]:
        head = self.place.run(self.at._head.load())
        return {producer.name: [producer.last, list(producer.offsets)] for producer in head.producers}

    def _referred(self) -> set[str]:
        """Every file that a document, or a file that one refers to, names."""
        engine = self.at
        found = {*engine.runs.names(), engine.root.catalog["plan"]["name"]}
        found.update(self.place.run(_collect(engine._owner.names())))
        found.update(self.place.run(_collect(engine._head.names())))
        for version in engine.root.versions:
            if version.manifest is not None:
                manifest = read_manifest(self.blobs, version.manifest)
                found |= manifest.names
                if manifest.circuit:
                    found.add(manifest.circuit["name"])
        return found


def _summary(rows: ZSet) -> list[Any]:
    return sorted(_plain(rows), key=repr) if len(rows) < BULK else [len(rows), sum_of(rows)]


def _plain(rows: ZSet) -> list[list[Any]]:
    values = zip(*(column.to_pylist() for column in rows.rows.columns), strict=True)
    return [[list(row), int(weight)] for row, weight in zip(values, rows.weights, strict=True)]


async def _collect(names: Any) -> list[str]:
    return [name async for name in names]


def _count_passings() -> Counter[str]:
    passed: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is failpoint.reach.__code__:
            passed[frame.f_locals["name"]] += 1

    threading.setprofile(note)
    sys.setprofile(note)
    return passed


def main(job: Job) -> None:
    """Run a job to its end, whatever that is."""
    os.environ[failpoint.VARIABLE] = job.failpoint
    os.environ[failpoint.PAUSE_VARIABLE] = job.pausepoint
    passed = _count_passings() if job.count else Counter()
    child = Child(job)
    child.run()
    passings = dict(passed)
    if job.stop >= len(job.acts):
        os.environ[failpoint.VARIABLE] = ""
        report = json.dumps({"passings": passings, **child.report()}, sort_keys=True)
        Path(job.folder, "report.json").write_text(report)


def run_forked(act: Callable[[], None], kill_after_s: float | None = None) -> int:
    """Run something in a fork of this process; how that ended, as `Popen.returncode` says it.

    Says so when the fork is stopped. With `kill_after_s`, it is killed then, wherever it is.
    """
    ended = {signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, ended)
    signal.sigtimedwait(ended, 0)  # that of the fork before
    process = os.fork()
    if process:
        if kill_after_s is not None and signal.sigtimedwait(ended, kill_after_s) is None:
            os.kill(process, signal.SIGKILL)
        while os.WIFSTOPPED(status := os.waitpid(process, os.WUNTRACED)[1]):
            say(stopped=process)
        return os.waitstatus_to_exitcode(status)
    try:
        act()
        os._exit(0)
    except NotOpen:
        os._exit(OUSTED)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def serve() -> None:
    for line in sys.stdin:
        job = msgspec.json.decode(line, type=Job)
        say(code=run_forked(functools.partial(main, job)))


if __name__ == "__main__":
    serve()
