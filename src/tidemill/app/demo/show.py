"""The demo's pipeline at work: fed, stepped, read and, in turn, checked against Spark."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import cycle
from statistics import median
from threading import Event
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.api.pipeline import Pipeline
from tidemill.app.demo.figures import Figures, Phase, ViewFigures
from tidemill.app.demo.lives import Batch, Course
from tidemill.pipeline.log.root import StepRecord

STEP_EVERY_S = 0.25
"""Steps do not come faster, so that something is left of the machine."""
CHECKING = 1 / 3
"""The share of time in which views are computed from scratch."""
SOME_ROWS = 3
SMALL = 2_000
"""A view of at most so many rows is read after every step and shown from its start; others in turn, from
their end, where new rows are likely."""
LONGEST = 40
"""So many letters of a value are shown."""
_REMEMBERED = 500


@dataclass(slots=True)
class Show:
    """A pipeline, its course of events, and what there is to `tell`."""

    pipeline: Pipeline
    course: Course
    tell: Callable[[Figures], None]
    steps: int = 0
    rows_in: int = 0
    stepping_s: float = 0.0
    checking_s: float = 0.0
    step_ms: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    view_ms: dict[str, deque[float]] = field(default_factory=dict)
    tables: dict[str, int] = field(default_factory=dict)
    views: dict[str, ViewFigures] = field(default_factory=dict)

    def run(self, finish: Event, end: Event) -> None:
        """Load the history and go on until `finish`, then check what was not yet, unless it is the `end`."""
        self.views = {name: ViewFigures(name) for name in self.pipeline.views}
        self.view_ms = {name: deque(maxlen=_REMEMBERED) for name in self.views}
        self.tables = dict.fromkeys(self.pipeline.tables, 0)
        self.report("loading")
        batches = iter(self.course)
        self._take(next(batches))
        for name in self.views:
            self._read(name)
        self.report("running")
        pause_s, reading, checking = 0.0, cycle(self.views), cycle(self.views)
        while not finish.wait(pause_s):
            pause_s = max(0.0, STEP_EVERY_S - self._step(next(batches)))
            self._look(next(reading))
            if self.checking_s <= CHECKING * (self.checking_s + self.stepping_s):
                self._check(next(checking))
            self.report("running")
        for view in self.views.values():
            if not view.checked and not end.is_set():
                self._check(view.name)
        self.report("finished")

    def report(self, phase: Phase) -> None:
        """Tell how things are."""
        self.tell(
            Figures(
                phase,
                steps=self.steps,
                rows_in=self.rows_in,
                rows_per_s=self.rows_in / self.stepping_s if self.stepping_s else 0.0,
                step_ms=tuple(self.step_ms),
                tables=self.tables,
                views=tuple(self.views.values()),
            )
        )

    def _step(self, batch: Batch) -> float:
        """Take a batch, and note what it cost; how long it took."""
        seconds, record = self._take(batch)
        self.steps += 1
        self.rows_in += batch.rows
        self.step_ms.append(seconds * 1000)
        self.stepping_s += max(seconds, STEP_EVERY_S)
        around_s = seconds - record.seconds  # the append, say, which every view needs
        for name, view_s in self.pipeline.timings().items():
            self.view_ms[name].append((around_s + view_s) * 1000)
            self._note(name, step_ms=median(self.view_ms[name]))
        return seconds

    def _take(self, batch: Batch) -> tuple[float, StepRecord]:
        """Append the events and bring the views up to date; how long that took, and what is told of it."""
        started = time.perf_counter()
        if batch.frames:
            self.pipeline.apply(batch.frames)
        record = self.pipeline.step(clock=self.course.clock(batch.events))
        for name, grown in batch.grown.items():
            self.tables[name] += grown
        return time.perf_counter() - started, record

    def _look(self, turn: str) -> None:
        """Read the views that are small, and the one whose turn it is."""
        for name, view in self.views.items():
            if name == turn or view.rows <= SMALL:
                self._read(name)

    def _read(self, name: str) -> None:
        found = self.pipeline.view(name).to_arrow()
        some = tuple(tuple(map(shown, row.values())) for row in some_rows(found).to_pylist())
        self._note(name, columns=tuple(found.column_names), some=some, rows=found.num_rows)

    def _check(self, name: str) -> None:
        """Have Spark compute the view from scratch, and compare."""
        started = time.perf_counter()
        verdict = self.pipeline.verify(name)
        view = self.views[name]
        self._note(
            name,
            rows=verdict.rows,
            recompute_ms=verdict.recompute_s * 1000,
            checked=view.checked + 1,
            wrong=view.wrong + (not verdict.equal),
        )
        self.checking_s += time.perf_counter() - started

    def _note(self, name: str, **news: Any) -> None:
        self.views[name] = msgspec.structs.replace(self.views[name], **news)


def some_rows(found: pa.Table) -> pa.Table:
    """The first or last by the order of the columns, of which those count that have one."""
    columns = [column.name for column in found.schema if not pa.types.is_nested(column.type)]
    if not columns:
        return found.slice(0, SOME_ROWS)
    keys = [(column, "ascending" if found.num_rows <= SMALL else "descending") for column in columns]
    return found.take(pc.select_k_unstable(found, min(SOME_ROWS, found.num_rows), sort_keys=keys))


def shown(value: object) -> str:
    """A value as text that is not too long."""
    match value:
        case None:
            text = "NULL"
        case datetime():
            text = f"{value:%H:%M:%S}.{value.microsecond // 100_000}"
        case float():
            text = f"{value:.6g}"
        case _:
            text = str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
