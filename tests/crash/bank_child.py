"""The bank of `e2e.bank` in a process that is made to be killed: on the inline runtime, without Spark.

python -m crash.bank_child

It reads a `Job` as JSON from each line of its input and runs it in a fork of itself, as `pipeline_child`
does. The folder holds a pipeline that was planned before, and a `Setup`. Step n takes lot n of the
transactions, is judged, and adds a line to the file `judged`; a lot that a killed child may have been in is
done again.
"""

import functools
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from crash.pipeline_child import run_forked, say
from e2e import bank
from tidemill.api.folder import PipelineFolder
from tidemill.api.rows import as_batch, weighted_schema
from tidemill.base.ids import new_token
from tidemill.pipeline import failpoint
from tidemill.pipeline.engine import FOLDER, Engine, Plan, Policy
from tidemill.pipeline.ingest import to_change
from tidemill.pipeline.log.segment import SegmentRef, read_segment, write_segment
from tidemill.pipeline.plan.node import Source, View
from tidemill.pipeline.runtimes.inline import InlineRuntime
from tidemill.pipeline.state.files import RunFiles
from tidemill.pipeline.state.spec import Part, StateSpec
from tidemill.pipeline.state.spine import Spine
from tidemill.pipeline.zset import concat, consolidate

POLICY = Policy(commit_steps=3, commit_s=1e9, grace_s=0.0)
"""Versions and sweeps come often, so that one is under way at many a kill."""

transactions = functools.cache(bank.original)


class Planned(msgspec.Struct, frozen=True):
    """What the pipeline computes from a lot on, and which of its nodes start empty."""

    lot: int
    plan: Plan
    fresh: frozenset[str] = frozenset()

    @property
    def views(self) -> dict[str, View]:
        """By the names of their states."""
        circuit = self.plan.circuit
        nodes = zip(circuit.fingerprints, circuit.nodes, strict=True)
        return {mark: node for mark, node in nodes if isinstance(node, View)}


class Setup(msgspec.Struct, frozen=True):
    """What all children of one folder know. The first plan is in the folder already."""

    settings: dict[str, str]
    rows: int
    steps: int
    single: int
    plans: list[Planned]

    @property
    def lots(self) -> list[range]:
        return bank.lots(self.rows, self.steps, self.single)


class Job(msgspec.Struct, frozen=True):
    """What one child does: at most so many lots, from the first that was not judged."""

    folder: str
    workers: int
    lots: int = sys.maxsize
    failpoint: str = ""
    pausepoint: str = ""
    kill_after_s: float | None = None


class Teller:
    """The pipeline in one process."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.judged = folder / "judged"
        self.setup = msgspec.json.decode((folder / "setup.json").read_bytes(), type=Setup)
        self.rows = transactions(self.setup.rows)
        place = PipelineFolder(folder / "p").place
        files = RunFiles(place.blobs)
        self.engine = Engine(place, InlineRuntime(files, workers), files, POLICY)
        self.engine.open("", self.setup.settings)

    def take(self, number: int) -> None:
        """Change the plan if it is time, append the lot, make its step, and judge it. Safe to repeat."""
        lot = self.setup.lots[number]
        self._replan(number)
        self.engine.append([self._stage(lot)], producer="teller", sequence=number)
        if self.engine.root.last <= number:
            self.engine.step()
        assert self.engine.root.last == number + 1
        changes = dict(self._changes(number))
        after = bank.expected(self.rows.slice(0, lot.stop))
        wrong = bank.complaints(dict(self._shown()), self.rows.slice(0, lot.stop))
        wrong += bank.change_complaints(changes, dict(self._before(number)), after)
        line = {"lot": number, "workers": self.engine.runtime.workers, "wrong": wrong}
        with self.judged.open("a") as judged:
            judged.write(json.dumps({**line, "output": _digest(changes)}) + "\n")

    def _replan(self, number: int) -> None:
        plans = self.setup.plans
        digests = [planned.plan.circuit.digest for planned in plans]
        for planned in plans[digests.index(self.engine.plan.circuit.digest) + 1 :]:
            if planned.lot <= number:
                self.engine.change_plan(planned.plan, planned.fresh)

    def _stage(self, lot: range) -> SegmentRef:
        [source] = [node for node in self.engine.plan.circuit.nodes if isinstance(node, Source)]
        change = to_change(source, self.rows.slice(lot.start, len(lot)), weight=1, zone="UTC")
        name = f"{FOLDER}/in/{new_token()}"
        return write_segment(self.engine.place.blobs, name, source.table, change, source.shard_key)

    # What anybody can see

    def _planned(self, number: int) -> Planned:
        return next(planned for planned in reversed(self.setup.plans) if planned.lot <= number)

    def _shown(self) -> Iterator[tuple[str, pa.Table]]:
        """The rows of every view there is, each of them there once."""
        for mark, node in self._planned(self.engine.root.last - 1).views.items():
            spec = StateSpec(mark, node.schema, tuple(range(len(node.schema))))
            runs = [msgspec.structs.replace(run, lane=None) for run in self.engine.runs.of(mark)]
            pieces = list(Spine(spec, Part(), self.engine.files, runs).scan())
            assert all(np.array_equal(piece.weights, np.ones(len(piece))) for piece in pieces)
            yield node.name, pa.Table.from_batches([piece.rows for piece in pieces], node.schema)

    def _changes(self, number: int) -> Iterator[tuple[str, pa.Table]]:
        """What the step has put out."""
        for node in self._planned(number).views.values():
            segments = self.engine.changes(node.name, number - 1, number)
            parts = [read_segment(self.engine.place.blobs, segment) for segment in segments]
            change = as_batch(consolidate(concat(parts, node.schema)), weighted=True)
            yield node.name, pa.Table.from_batches([change], weighted_schema(node.schema))

    def _before(self, number: int) -> Iterator[tuple[str, pa.Table]]:
        """What the views had to be before the step: new ones were empty."""
        wanted = bank.expected(self.rows.slice(0, self.setup.lots[number].start))
        older = self._planned(number - 1).views if number else {}
        for mark, node in self._planned(number).views.items():
            yield node.name, wanted[node.name] if mark in older else wanted[node.name].slice(0, 0)


def _digest(changes: bank.Views) -> str:
    said = {view: bank.ordered(change).to_pylist() for view, change in sorted(changes.items())}
    return hashlib.sha256(repr(said).encode()).hexdigest()


def main(job: Job) -> None:
    os.environ[failpoint.VARIABLE] = job.failpoint
    os.environ[failpoint.PAUSE_VARIABLE] = job.pausepoint
    teller = Teller(Path(job.folder), job.workers)
    done = len(teller.judged.read_text().splitlines()) if teller.judged.exists() else 0
    for number in range(done, min(done + job.lots, len(teller.setup.lots))):
        teller.take(number)


def serve() -> None:
    for line in sys.stdin:
        job = msgspec.json.decode(line, type=Job)
        transactions(msgspec.json.decode(Path(job.folder, "setup.json").read_bytes(), type=Setup).rows)
        say(code=run_forked(functools.partial(main, job), job.kill_after_s))


if __name__ == "__main__":
    serve()
