"""The batch runtime: one Spark job a step.

The job's plan is built once for a circuit and never changes: a stage of the circuit is one `mapInArrow`
around a pipeline worker, an exchange is Spark's shuffle by the number of the pipeline worker. What travels
is Arrow bytes, one row a parcel, so that Spark never looks at data rows. The step itself is a property of
the job, and the job's result is the reports: names, never data.

    range(W) ─ mapInArrow(stage 0) ─ repartitionById ─ mapInArrow(stage 1) ─ … ─ toArrow

Fragments with functions that are not proved run between two stages as plain Spark columns.
"""

import base64
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidemill.base.ids import new_token
from tidemill.pipeline.errors import NotOpen, StepFailed
from tidemill.pipeline.exchange import Layout, Parcel, cut
from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.runtimes import fragment
from tidemill.pipeline.runtimes.functions import Functions
from tidemill.pipeline.runtimes.session import spark_there
from tidemill.pipeline.state.files import RunFiles
from tidemill.pipeline.state.merges import Merged, MergeUnit, run_merge
from tidemill.pipeline.task import Report, StepTask
from tidemill.pipeline.worker import PipelineWorker
from tidemill.pipeline.zset import from_ipc, to_ipc
from tidemill.store.blobs import Blobs

T = TypeVar("T")

TASK = "tidemill.task"
_MERGE_S = 600.0
_REPORT = -1
_END = 2**30
"""The stage of a report: past all others, so that it passes through to the driver."""

PARCEL = pa.schema(
    [
        pa.field("dest", pa.int32()),
        pa.field("stage", pa.int32()),
        pa.field("node", pa.int32()),
        pa.field("port", pa.int32()),
        pa.field("blob", pa.binary()),
    ]
)
"""A parcel as a row of Spark: for whom, for which stage and node, and its rows as Arrow bytes."""


class BatchRuntime:
    """Runs steps as Spark jobs on a session that stays the caller's."""

    name = "batch"
    background = True

    def __init__(
        self,
        spark: SparkSession,
        files: RunFiles,
        workers: int | None = None,
        functions: Functions | None = None,
    ) -> None:
        self.spark = spark
        self.files = files
        self.workers = workers or max(1, spark.sparkContext.defaultParallelism)
        self._functions = functions or Functions(spark)
        self._group = f"tidemill-{new_token()}"
        self._running: set[str] = set()
        self._plan: DataFrame | None = None
        self._circuit = Circuit()

    def check(self, circuit: Circuit) -> None:
        """Every circuit runs here."""

    def prepare(self, circuit: Circuit) -> None:
        try:
            with spark_there("the plan of the steps"):
                self._functions.require(circuit)
                with self._functions.callable():
                    self._plan, self._circuit = self._planned(circuit), circuit
        except (PySparkException, Py4JError) as error:
            raise StepFailed(f"Spark cannot plan the steps: {reason_of(error)}") from error

    def _planned(self, circuit: Circuit) -> DataFrame:
        layout = Layout(self.workers)
        text = circuit.to_json()
        frame = self.spark.range(0, self.workers, 1, self.workers).selectExpr("cast(id as int) as dest")
        for stage in range(circuit.stage_count):
            if stage:
                frame = frame.repartitionById(self.workers, "dest")
            run = StageFunction(text, stage, layout, self.files.blobs)
            frame = frame.mapInArrow(run, fragment.schema_of(circuit, stage))
            frame = fragment.select(frame, circuit, stage, self.workers)
        return frame

    def run(self, task: StepTask, deadline_s: float) -> tuple[Report, ...]:
        if self._plan is None:
            raise NotOpen("the batch runtime has no circuit")
        plan = self._plan
        # A frame that was run once would give its old shuffle files again.
        rows = self._job(f"step {task.step}", encode(task), lambda: plan.select("*").toArrow(), deadline_s)
        reports = decode_reports(rows)
        if not any(report.error for report in reports) and len(reports) != self._expected():
            raise StepFailed(f"step {task.step}: {len(reports)} reports of {self._expected()} came back")
        return reports

    def cancel(self) -> None:
        self._cancel(f"{self._group}-step")

    def merge(self, units: Sequence[MergeUnit]) -> tuple[Merged, ...]:
        def merged() -> pa.Table:
            # As a frame, like the steps, so that the Python processes of the steps serve it as well.
            numbers = self.spark.range(0, len(units), 1, len(units))
            return numbers.mapInArrow(MergeFunction(self.files.blobs), "result binary").toArrow()

        rows = self._job("merge", encode(tuple(units)), merged, _MERGE_S)
        return tuple(msgspec.json.decode(text, type=Merged) for text in rows.column(0).to_pylist())

    def close(self) -> None:
        self.cancel()
        self._cancel(f"{self._group}-merge")
        self._plan = None

    def _cancel(self, group: str) -> None:
        if group in self._running and self.spark.sparkContext._jsc is not None:
            self.spark.sparkContext.cancelJobGroup(group)

    def _expected(self) -> int:
        return self.workers * self._circuit.stage_count

    def _job(self, what: str, task: str, act: Callable[[], Any], deadline_s: float) -> Any:
        """Run a Spark job under a deadline, in a group of its own so that it alone is cancelled."""
        context, group = self.spark.sparkContext, f"{self._group}-{what.partition(' ')[0]}"
        if context._jsc is None:
            raise StepFailed(f"{what}: the Spark session was stopped")
        late = threading.Event()

        def cancel() -> None:
            late.set()
            context.cancelJobGroup(group)

        timer = threading.Timer(deadline_s, cancel)
        timer.daemon = True
        try:
            with spark_there(what):
                context.setJobGroup(group, f"tidemill: {what}", interruptOnCancel=True)
                context.setLocalProperty(TASK, task)
                self._running.add(group)
                timer.start()
                return act()
        except (PySparkException, Py4JError) as error:
            if late.is_set():
                raise StepFailed(
                    f"{what}: not done within {deadline_s:g} s; its job was cancelled"
                ) from error
            aborted = fragment.as_abort(error, self._circuit, self._functions)
            raise aborted or StepFailed(f"{what}: {reason_of(error)}") from error
        finally:
            timer.cancel()
            self._running.discard(group)
            with suppress(Py4JError, ConnectionError):  # the JVM itself may be gone
                context.setLocalProperty(TASK, None)  # type: ignore[arg-type]
                context._jsc.clearJobGroup()


class StageFunction:
    """What Spark runs for one stage on each partition, whose number is that of the pipeline worker."""

    def __init__(self, circuit: bytes, stage: int, layout: Layout, blobs: Blobs) -> None:
        self.circuit = circuit
        self.stage = stage
        self.layout = layout
        self.blobs = blobs

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        worker = _worker(self.circuit, context.partitionId(), self.layout)
        task = decode(_property(), StepTask)
        leaving = fragment.leaving(worker.circuit, self.stage)
        later: list[pa.RecordBatch] = []
        inbox = _inbox(batches, worker.circuit, self.stage, later)
        for item in worker.run(self.stage, task, _files(self.blobs), inbox):
            for batch in _outgoing(item, worker, leaving):
                yield fragment.widen(batch, worker.circuit, self.stage)
        for batch in later:
            yield fragment.widen(batch, worker.circuit, self.stage)


class MergeFunction:
    """What Spark runs for the units of a merge: their numbers in, the runs they gave out."""

    def __init__(self, blobs: Blobs) -> None:
        self.blobs = blobs

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        units = decode(_property(), tuple[MergeUnit, ...])
        for batch in batches:
            for number in batch.column(0).to_pylist():
                merged = msgspec.json.encode(run_merge(_files(self.blobs), units[number]))
                yield pa.RecordBatch.from_pydict({"result": [merged]})


@lru_cache(maxsize=64)
def _worker(circuit: bytes, number: int, layout: Layout) -> PipelineWorker:
    """Made once in each Python process: compiling its expressions takes longer than a small step."""
    return PipelineWorker(Circuit.from_json(circuit), number, layout)


@lru_cache(maxsize=16)
def _files(blobs: Blobs) -> RunFiles:
    """The same in each Python process from step to step: it keeps the runs that it has opened."""
    return RunFiles(blobs)


def _inbox(
    batches: Iterable[pa.RecordBatch], circuit: Circuit, stage: int, later: list[pa.RecordBatch]
) -> Iterator[Parcel]:
    """The parcels for a stage. What only passes through to a later one is laid aside."""
    for batch in batches:
        if batch.num_columns == 1:
            continue  # the seed of stage 0 says nothing
        yield from fragment.receive(batch, circuit, stage)
        columns = [batch.column(name).to_pylist() for name in PARCEL.names[:-1]]
        blobs = batch.column("blob")
        for index, (to, at, node, port) in enumerate(zip(*columns, strict=True)):
            if not blobs[index].is_valid:
                continue
            if at == stage:
                yield Parcel(to, at, node, port, from_ipc(blobs[index].as_buffer()))
            else:
                later.append(batch.slice(index, 1).select(PARCEL.names))


def _outgoing(
    item: Parcel | Report, worker: PipelineWorker, leaving: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    if isinstance(item, Report):
        yield _row(worker.number, _END, _REPORT, 0, msgspec.json.encode(item))
    elif item.node in leaving:
        yield fragment.send(item, worker.circuit)
    else:
        for part in cut(item):
            yield _row(part.to, part.stage, part.node, part.port, to_ipc(part.rows))


def _row(to: int, stage: int, node: int, port: int, blob: Any) -> pa.RecordBatch:
    numbers = [pa.array([number], pa.int32()) for number in (to, stage, node, port)]
    offsets = pa.py_buffer(np.array([0, len(blob)], np.int32))
    content = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(blob)])
    return pa.RecordBatch.from_arrays([*numbers, content], schema=PARCEL)


def _property() -> str:
    context = TaskContext.get()
    assert context is not None
    return context.getLocalProperty(TASK) or ""


def encode(task: StepTask | tuple[MergeUnit, ...]) -> str:
    """A task as the value of a job property."""
    return base64.b85encode(zlib.compress(msgspec.json.encode(task), 1)).decode()


def decode(text: str, kind: type[T]) -> T:
    return msgspec.json.decode(zlib.decompress(base64.b85decode(text)), type=kind)


def decode_reports(rows: pa.Table) -> tuple[Report, ...]:
    return tuple(msgspec.json.decode(blob, type=Report) for blob in rows.column("blob").to_pylist())


def reason_of(error: PySparkException | Py4JError) -> str:
    """One line: of an error of the JVM that of its innermost cause which says anything."""
    reason = str(error)
    cause = error.java_exception if isinstance(error, Py4JJavaError) else None
    while cause is not None:
        reason = cause.getMessage() or reason
        cause = cause.getCause()
    lines = reason.strip().splitlines() or [type(error).__name__]
    return lines[-1].strip() if "Traceback" in reason else lines[0]
