"""`tidemill.Pipeline`: tables that change and views that follow, on the caller's own Spark session.

    with tidemill.Pipeline(spark, "auctions") as p:
        p.sql("CREATE TABLE bids (auction BIGINT, price BIGINT)")
        p.sql("CREATE VIEW top AS SELECT auction, max(price) m FROM bids GROUP BY auction")
        p.insert("bids", frame)                  # durable on return
        record = p.step()                        # every view is now what Spark SQL would answer
        p.view("top").to_pandas()
        p.changes("top", since=record.number - 1).to_pandas()
        p.start()                                # or let it make the steps by itself

A folder holds all of it: an SQLite file with the two documents, and blobs with log and state. Opening it
again after a crash goes on where the last acknowledged append left off.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, overload

from pyspark.sql import DataFrame, SparkSession

from tidemill.api.aggregates import Aggregates
from tidemill.api.folder import PipelineFolder
from tidemill.api.frames import Frame, Staging
from tidemill.api.last_step import LastStep
from tidemill.api.pins import Pins
from tidemill.api.progress import Progress, tasks_of
from tidemill.api.reader import Reader
from tidemill.api.rows import Rows
from tidemill.api.verify import Verification
from tidemill.pipeline.continuous import Continuous
from tidemill.pipeline.engine import FOLDER, Engine, Policy
from tidemill.pipeline.errors import BadInput, NoSuchName, NotOpen, Refused, StepFailed
from tidemill.pipeline.live import LiveRuns
from tidemill.pipeline.log.head import Receipt
from tidemill.pipeline.log.root import StepRecord
from tidemill.pipeline.log.segment import SegmentRef
from tidemill.pipeline.plan.node import Source
from tidemill.pipeline.runtimes.batch import BatchRuntime
from tidemill.pipeline.runtimes.cluster import prepare_cluster
from tidemill.pipeline.runtimes.inline import InlineRuntime
from tidemill.pipeline.runtimes.runtime import Runtime
from tidemill.pipeline.runtimes.session import check_python, check_session, own_session, spark_there
from tidemill.pipeline.state.files import RunFiles
from tidemill.pipeline.step import Pending
from tidemill.pipeline.zset import SHARDS
from tidemill.sql.explain import Form
from tidemill.sql.planner import PlanChange, Planner
from tidemill.store import StoreError
from tidemill.store.blobs import BlobError, Blobs

RuntimeName = Literal["batch", "inline"]


class Pipeline(Aggregates, LastStep, Verification):
    """A pipeline in a folder, opened or created; survives a crash at any moment.

    Without a session one is started, tuned for small steps, and left running for the next pipeline without
    one. One process may have the folder open at a time. Appends, reads, `discard` and `wait` may come from
    any thread; do the rest from one. Leaving the `with` block commits a version, so that the next open has
    nothing to repeat. Once Spark's own process has ended, what needs it raises `SparkGone`.
    """

    def __init__(
        self,
        spark: SparkSession | None,
        path: str | Path,
        *,
        runtime: RuntimeName = "batch",
        workers: int | None = None,
        policy: Policy | None = None,
        blobs: str | Blobs | None = None,
    ) -> None:
        """`blobs` is where its files lie if not in the folder: an address such as `s3://bucket/prefix`, or
        what `open_blobs` gave, with a cache of your choice. It must be named each time, and be its alone.
        """
        self.spark = own_session() if spark is None else spark
        check_session(self.spark)
        self._folder = PipelineFolder(Path(path), blobs)
        try:
            self._planner = Planner(self.spark)
            files = RunFiles(self._folder.place.blobs)
            self._engine = Engine(self._folder.place, self._runtime(runtime, files, workers), files, policy)
            self._engine.open("", self._planner.settings)
            self._planner.load(self._engine.plan)
        except BaseException:
            self._folder.close()
            raise
        self._continuous = Continuous(self._engine)
        self._planning = threading.RLock()
        self._tasks = tasks_of(self.spark)
        self._checked = ""
        self.pins = Pins(self._engine_open, self._continuous.checkpoint)
        self._reader = Reader(self.spark, self._folder.place.blobs)
        self._open = True

    def _runtime(self, name: RuntimeName, files: RunFiles, workers: int | None) -> Runtime:
        if workers is not None and not 1 <= workers <= SHARDS:
            raise Refused(f"{workers} pipeline workers: at least 1, at most {SHARDS}")
        if name == "batch":
            check_python(self.spark)
            prepare_cluster(self.spark, files.blobs)
            return BatchRuntime(self.spark, files, workers, self._planner.functions)
        if name == "inline":
            return InlineRuntime(files, workers or 2)
        raise Refused(f"there is no runtime {name!r}: it is 'batch' or 'inline'")

    # What there is

    def sql(self, text: str, *, file: str | None = None) -> None:
        """Create or drop tables and views: one or several statements, which take effect together.

        Raises `Refused` for what cannot be kept incrementally, with its place in the text, after the name of
        the `file` if the text is from one. Then none of the statements takes effect.
        """
        with self._plan():
            change = self._planner.script(text, file)
            if change is not None:
                self._adopt(change)

    @spark_there()
    def table(self, name: str) -> DataFrame:
        """A table or view as a frame to build views from. It holds no rows: read those with `view`."""
        return self._planner.frame(name)

    @overload
    def view(self, name: str, *, pin: str | None = None) -> Rows: ...

    @overload
    def view(self, name: str, frame: DataFrame) -> None: ...

    def view(self, name: str, frame: DataFrame | None = None, *, pin: str | None = None) -> Rows | None:
        """Read a view (or table) as of the last step; with a frame over the tables, create it instead.

        With a pin, as of the last step in that: see `pins`. Raises `NoSuchName` for a view that is younger.
        A view that is created late is filled by the next step.
        """
        engine = self._engine_open()
        if frame is None:
            return self._read(name, engine.runs if pin is None else self._pinned(name, pin))
        if not isinstance(frame, DataFrame):
            raise Refused(f"view {name}: made of a DataFrame over the tables; SQL text goes to sql()")
        with self._plan():
            self._adopt(self._planner.view(name, frame))
        return None

    def _read(self, name: str, runs: LiveRuns) -> Rows:
        spec = self._planner.state(name)
        if spec is None:
            return self._reader.nothing(self._planner.schema(name), runs.step - 1)
        if spec.name not in self._engine.plan.circuit.fingerprints:
            raise NoSuchName(f"{name} is being dropped")  # its runs may be gone already
        return self._reader.state(spec, runs.of(spec.name), runs.step - 1)

    def _pinned(self, name: str, pin: str) -> LiveRuns:
        runs = self._engine_open().pins.runs(pin)
        if self._planner.name_of(name) in self.views and self._planner.since(name) >= runs.step:
            raise NoSuchName(f"view {name} is younger than pin {pin!r}")
        return runs

    def drop(self, name: str) -> None:
        """Drop a view or table and its state. Refused, with their names, while others use it."""
        known = self._planner.name_of(name)
        quoted = known.replace("`", "``")
        self.sql(f"DROP VIEW `{quoted}`" if known in self._planner.views else f"DROP TABLE `{quoted}`")

    @contextmanager
    def _plan(self) -> Iterator[None]:
        """One at a time, and under the settings with which the pipeline was opened."""
        engine = self._engine_open()
        with self._planning, spark_there():
            self._planner.check_settings()
            # While it runs by itself, what is unfilled now may be filled before a new view is there.
            self._planner.unfilled = frozenset(() if self._continuous.running else engine.unfilled)
            yield

    def _adopt(self, change: PlanChange) -> None:
        with self._continuous.paused():
            engine = self._engine_open()
            plan = self._planner.dated(change.plan, engine.root.last)
            engine.change_plan(plan, change.fresh)
        self._planner.load(plan)

    def explain(self, format: Form = "text") -> str:  # noqa: A002
        """The circuit: each operator with its words of SQL, its keys, the state it keeps and what a change
        costs it. As text, "json" or "dot", which Graphviz draws."""
        return self._planner.explain(format)

    @property
    def tables(self) -> tuple[str, ...]:
        return self._planner.tables

    @property
    def views(self) -> tuple[str, ...]:
        return self._planner.views

    # Input

    def insert(
        self, table: str, frame: Frame, *, producer: str | None = None, sequence: int | None = None
    ) -> Receipt:
        """Append rows; durable on return, in the views after the next step.

        With a primary key, a row takes the place of the one with its key. A repeat of (producer, sequence)
        gets the same receipt and appends nothing. Raises `BadInput` when the rows do not fit the table.
        """
        return self._append(self._stage(table, frame, 1), producer, sequence)

    def delete(
        self, table: str, frame: Frame, *, producer: str | None = None, sequence: int | None = None
    ) -> Receipt:
        """Append the deletion of rows: whole rows or, with a primary key, just their keys.

        The step that finds a row missing is aborted.
        """
        return self._append(self._stage(table, frame, -1), producer, sequence)

    def apply(
        self,
        changes: Mapping[str, Frame],
        *,
        producer: str | None = None,
        sequence: int | None = None,
    ) -> Receipt:
        """Append changes of several tables as one: rows with `_weight`, 1 to insert, -1 to delete."""
        segments = [ref for table, frame in changes.items() for ref in self._stage(table, frame, None)]
        return self._append(segments, producer, sequence)

    def pending(self) -> list[Pending]:
        """The appends that no step has taken yet, with the error of those whose step was aborted."""
        return self._engine_open().pending()

    def discard(self, offset: int) -> None:
        """Have no step take this append; a step that is trying it is waited for.

        Raises `NoSuchName` when it is not pending, and `NotNow` when it is in a step that failed and has not
        been made again.
        """
        self._engine_open()
        self._continuous.discard(offset)

    @spark_there()
    def _stage(self, table: str, frame: Frame, weight: int | None) -> tuple[SegmentRef, ...]:
        staging = Staging(self._folder.place.blobs, FOLDER, self._source(table), weight, self._planner.zone)
        with Progress(f"{table}: staging", self._tasks):
            return staging.stage(frame)

    def _source(self, table: str) -> Source:
        """The table's source; its rows are spread from the first append on."""
        with self._planning:
            change = self._planner.settle(table)
            if change is not None:
                self._adopt(change)
            return self._planner.source(table)

    def _append(self, segments: Sequence[SegmentRef], producer: str | None, sequence: int | None) -> Receipt:
        if (producer is None) != (sequence is None):
            raise BadInput("producer and sequence go together: who appends, and the number of this append")
        return self._engine_open().append(segments, producer=producer, sequence=sequence)

    # Steps

    @spark_there()
    def step(self, *, clock: datetime | None = None) -> StepRecord:
        """Take what was appended and bring every view up to date. An empty step is numbered too.

        `clock` is what now() means in this step, to the millisecond, instead of the time; it never goes back:
        an earlier one than that of the step before counts as that one.

        Raises `StepAborted` when the data made it fail: it is recorded, the views are as they were, and the
        appends stay pending. Raises `StepFailed` when the machinery did: step again. Raises `NotNow` while
        the pipeline runs by itself.
        """
        engine = self._engine_open()
        if self._checked != engine.plan.circuit.digest:
            self._planner.check_settings()  # fragments are analysed anew, under what the session has now
            self._checked = engine.plan.circuit.digest
        number = engine.root.last
        with self._continuous.idle("step()"), Progress(f"step {number}", self._tasks):
            try:
                return engine.step(None if clock is None else _milliseconds(clock))
            except (BlobError, StoreError) as error:
                raise StepFailed(f"step {number}: {error}") from error

    def start(self) -> None:
        """Run in the background from now on: a step when something was appended, a version now and then.

        A step that is aborted is logged as a warning, and others follow. One that the machinery fails is
        tried again until it is done. Raises `NotNow` when it runs already.
        """
        self._engine_open()
        self._continuous.start()

    def pause(self) -> int:
        """End the step under way and commit; the step that comes next. `start` goes on from there.

        Raises the error that has ended the run, if one has.
        """
        self._engine_open()
        return self._continuous.pause()

    def stop(self) -> int:
        """Like `pause`, but takes what was appended before this call first.

        What is behind an append that fails stays pending.
        """
        self._engine_open()
        return self._continuous.stop()

    def wait(
        self, *, step: int | None = None, offset: int | None = None, timeout_s: float | None = None
    ) -> StepRecord:
        """Wait until a step, or the one that has an append, is done and in the views; its record.

        Raises `StepAborted` when the step was aborted: with an offset, when this append alone makes its step
        fail. Raises `TimeoutError`, the error that has ended the run, `NotNow` when the pipeline does not
        run, `NoSuchName` for an append that was discarded, and `Forgotten` for what is not kept any more.
        """
        self._engine_open()
        return self._continuous.wait(step=step, offset=offset, timeout_s=timeout_s)

    def changes(self, view: str, since: int) -> Rows:
        """What changed in a view after step `since`, added up, each row with its `_weight`."""
        engine = self._engine_open()
        last = engine.runs.step - 1
        since = max(since, self._planner.since(view) - 1)
        view = self._planner.name_of(view)
        return self._reader.change(self._planner.schema(view), engine.changes(view, since, last), last)

    def checkpoint(self) -> int:
        """Commit a version now, durable on return; its number."""
        self._engine_open()
        return self._continuous.checkpoint()

    def close(self) -> None:
        """Pause, commit and let others have the folder. Safe to repeat."""
        if not self._open:
            return
        self._open = False
        try:
            self._continuous.close()
            self._engine.close()
        except BaseException:
            self._engine.abandon()
            raise
        finally:
            self._folder.close()

    def _engine_open(self) -> Engine:
        if not self._open:
            raise NotOpen("this pipeline was closed; open its folder again")
        return self._engine

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _milliseconds(clock: datetime) -> int:
    """Since 1970. Raises `BadInput` for a time without a zone: it could mean several."""
    if clock.tzinfo is None:
        raise BadInput("the clock of a step has a time zone: datetime(…, tzinfo=UTC)")
    return (clock - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
