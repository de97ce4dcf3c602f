"""Kept views beside what Spark answers when it computes them from scratch, on the tables as of one step."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa

from tidemill.api.differences import unequal
from tidemill.api.rows import Rows, as_batch
from tidemill.pipeline.engine import Engine
from tidemill.pipeline.errors import NoSuchName, NotNow
from tidemill.pipeline.live import LiveRuns
from tidemill.pipeline.log.root import StepRecord
from tidemill.pipeline.runtimes.session import spark_there
from tidemill.pipeline.zset import ZSet, concat
from tidemill.sql.planner import Planner
from tidemill.sql.recompute import as_zset


@dataclass(frozen=True, slots=True)
class Verdict:
    """A kept view and Spark's answer, as of one step.

    `missing` are rows of the answer that the view lacks, `extra` those that it should not have. `step_s` is
    what that step took, for all views together; `recompute_s` what Spark took for this one, with planning.
    """

    view: str
    step: int
    rows: int
    missing: pa.Table
    extra: pa.Table
    step_s: float
    recompute_s: float

    @property
    def equal(self) -> bool:
        return not self.missing.num_rows and not self.extra.num_rows

    def __repr__(self) -> str:
        return f"<Verdict: {self}>"

    def __str__(self) -> str:
        found = f"{self.missing.num_rows:,} missing, {self.extra.num_rows:,} too many"
        return (
            f"view {self.view} at step {self.step}: {self.rows:,} rows, {'equal' if self.equal else found}; "
            f"the step took {self.step_s:.3f} s, recomputing {self.recompute_s:.3f} s"
        )


class Verification(ABC):
    """What has views that Spark can compute from scratch."""

    _planner: Planner

    @abstractmethod
    def _engine_open(self) -> Engine: ...

    @abstractmethod
    def _plan(self) -> AbstractContextManager[None]: ...

    @abstractmethod
    def _read(self, name: str, runs: LiveRuns) -> Rows: ...

    def recompute(self, view: str) -> Rows:
        """What Spark answers when it computes a view from scratch, on the tables as of the last step.

        Views below it are expanded, and now() is that of the step. The pipeline is not touched, and may run.
        Raises `Refused` for a view that was made of a DataFrame before the pipeline was opened, since that is
        not kept, and `NotNow` for one that is new and not filled yet.
        """
        engine = self._engine_open()
        return self._recomputed(view, engine, engine.runs)

    @spark_there()
    def verify(self, view: str) -> Verdict:
        """Compare a view, as of the last step, with `recompute`. Both are read into this process.

        Floats may differ by 1e-9 of their value, as Spark adds them up in any order. Where Spark's answer
        depends on the order of rows (`first`, `collect_list`, ties), it may be another than ours.
        """
        engine = self._engine_open()
        runs = engine.runs
        started = time.perf_counter()
        answer = self._recomputed(view, engine, runs)
        theirs = concat(answer.pieces(), answer.schema)
        recompute_s = time.perf_counter() - started
        ours = concat(self._read(view, runs).pieces(), answer.schema)
        found = unequal(ours, theirs)
        last = _last(engine, runs.step)
        return Verdict(
            view=self._planner.name_of(view),
            step=runs.step - 1,
            rows=int(ours.weights.sum()),
            missing=_table(found.negate()),
            extra=_table(found),
            step_s=last.seconds if last else 0.0,
            recompute_s=recompute_s,
        )

    def _recomputed(self, view: str, engine: Engine, runs: LiveRuns) -> Rows:
        with self._plan():
            name = self._planner.name_of(view)
            if name not in self._planner.views:
                raise NoSuchName(f"{view} is a table; there are the views: {', '.join(self._planner.views)}")
            if self._planner.fingerprint(name) in engine.unfilled:
                raise NotNow(f"view {name} is new, and filled by the next step: step first")
            last = _last(engine, runs.step)
            schema = self._planner.schema(name)
            tables = lambda table: self._read(table, runs).to_spark()  # noqa: E731
            frame = self._planner.recompute(tables, last.clock if last else 0).view(name)

        def pieces() -> Iterator[ZSet]:
            yield as_zset(frame.toArrow(), schema)

        return Rows(runs.step - 1, schema, pieces, lambda: frame)


def _last(engine: Engine, step: int) -> StepRecord | None:
    """The last step before that which is done: the one that the views show."""
    for number in range(step - 1, engine.root.first - 1, -1):
        for record in engine.records(number, number + 1):
            if record.state == "done":
                return record
    return None


def _table(rows: ZSet) -> pa.Table:
    """The rows with positive weights, each as often as it is there."""
    return pa.Table.from_batches([as_batch(rows.filter(rows.weights > 0), weighted=False)])
