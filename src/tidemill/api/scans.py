"""Frames that are nothing but Parquet files on a disk: Spark's tasks read those with Arrow, without rows of
the JVM in between.

The rows are those that Spark would give. A frame of which that is not certain is left to Spark: one that
computes, filters or renames, a read with options, nested types, calendars of old, encryption.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidemill.pipeline import types
from tidemill.pipeline.errors import AppendFailed, UnsupportedType

Batches = Iterator[pa.RecordBatch]

TASK_ROWS = 2_000_000
"""About so many rows are read by a task, where there are enough for all cores."""

_BATCH_ROWS = 250_000
_MOST_FILES = 10_000
"""Of more, the driver does not look at every footer."""

_SOURCES = "org.apache.spark.sql.execution.datasources"
_RELATION = f"{_SOURCES}.LogicalRelation"
_FILES = (
    f"{_SOURCES}.HadoopFsRelation",
    f"{_SOURCES}.parquet.ParquetFileFormat",
    f"{_SOURCES}.InMemoryFileIndex",
)
_PROJECT = "org.apache.spark.sql.catalyst.plans.logical.Project"
_COLUMN = "org.apache.spark.sql.catalyst.expressions.AttributeReference"
# With any other value Spark reads what Arrow does not, or the other way round.
_SETTINGS = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
}
_REBASE = "spark.sql.parquet.datetimeRebaseModeInRead"
_CRYPTO = "parquet.crypto.factory.class"
_WRITTEN_BY, _OLD_CALENDAR = b"org.apache.spark.version", b"org.apache.spark.legacyDateTime"


class _Doubtful(Exception):
    """It is not certain that Arrow would read the same rows as Spark."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Row groups of one file, as it was when it was planned."""

    path: str
    size: int
    changed_ns: int
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """Columns of Parquet files, and which task reads what of them. Can be pickled."""

    columns: tuple[str, ...]
    tasks: tuple[tuple[Portion, ...], ...]

    def map(
        self, spark: SparkSession, act: Callable[[Iterable[pa.RecordBatch]], Batches], schema: str
    ) -> DataFrame:
        """As `DataFrame.mapInArrow` of the frame that this scan stands for.

        A file that is gone, damaged or not the one that was planned raises `AppendFailed` within `act`.
        """
        count = len(self.tasks)
        numbers = spark.range(0, count, 1, max(1, count))
        return numbers.mapInArrow(lambda batches: act(self._read(batches)), schema)

    def _read(self, numbers: Iterable[pa.RecordBatch]) -> Batches:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for portion in self.tasks[number]:
                    yield from self._read_portion(portion)

    def _read_portion(self, portion: Portion) -> Batches:
        try:
            with pq.ParquetFile(portion.path, page_checksum_verification=True) as file:
                found = Path(portion.path).stat()
                if (found.st_size, found.st_mtime_ns) != (portion.size, portion.changed_ns):
                    raise AppendFailed(f"{portion.path} changes while it is read")
                for batch in file.iter_batches(
                    _BATCH_ROWS, list(portion.groups), list(self.columns), use_threads=False
                ):
                    # Without what files say of their columns: batches of several are put together.
                    yield pa.RecordBatch.from_arrays(
                        [batch.column(name) for name in self.columns], list(self.columns)
                    )
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0]
            raise AppendFailed(f"cannot read {portion.path}: {reason}") from error


def parquet_scan(frame: DataFrame) -> Scan | None:
    """How to read the frame without Spark; None when it is more than files, or anything is doubtful."""
    try:
        columns = _columns(frame)
        paths = _paths(frame, columns.names)
        spark = frame.sparkSession
        if any(spark.conf.get(name) != value for name, value in _SETTINGS.items()):
            return None
        if spark._jsc.hadoopConfiguration().get(_CRYPTO) or spark.conf.get(_CRYPTO, None):
            return None
        corrected = spark.conf.get(_REBASE) == "CORRECTED"
        files = [_File(path, columns, corrected=corrected) for path in paths]
        if any(file.types != files[0].types for file in files):
            return None
        tasks = _spread([file for file in files if file.groups], spark.sparkContext.defaultParallelism)
    except (_Doubtful, UnsupportedType, OSError, pa.ArrowException, PySparkException, Py4JError):
        return None
    return Scan(tuple(columns.names), tasks)


def _columns(frame: DataFrame) -> pa.Schema:
    schema = types.schema_from_spark(frame.schema.jsonValue())
    names = schema.names
    if not names or len({name.lower() for name in names}) < len(names) or any("." in name for name in names):
        raise _Doubtful
    if any(pa.types.is_nested(field.type) for field in schema):
        raise _Doubtful
    return schema


def _paths(frame: DataFrame, columns: Sequence[str]) -> list[Path]:
    """The files of which the frame is just these columns."""
    # Of a new frame, since an old one does not know if it was cached after its plan was made.
    plan: Any = frame.select("*")._jdf.queryExecution().optimizedPlan()
    if _class(plan) == _PROJECT:
        chosen = plan.projectList()
        if any(_class(chosen.apply(at)) != _COLUMN for at in range(chosen.size())):
            raise _Doubtful
        plan = plan.child()
    if _class(plan) != _RELATION:
        raise _Doubtful
    relation = plan.relation()
    if (_class(relation), _class(relation.fileFormat()), _class(relation.location())) != _FILES:
        raise _Doubtful
    options = relation.options()
    if options.size() > options.contains("path") or not relation.bucketSpec().isEmpty():
        raise _Doubtful
    if not relation.partitionSchema().isEmpty() or set(columns) - set(relation.dataSchema().fieldNames()):
        raise _Doubtful
    return [_path(url) for url in relation.location().inputFiles()]


def _class(found: Any) -> str:
    return str(found.getClass().getName())


def _path(url: str) -> Path:
    parts = urlsplit(url)
    path = Path(unquote(parts.path))
    if parts.scheme != "file" or parts.netloc or parts.query or parts.fragment or path.name[:1] in "_.":
        raise _Doubtful
    return path


class _File:
    """A file of which all wanted columns are as Spark takes them. Raises `_Doubtful` if they are not."""

    def __init__(self, path: Path, columns: pa.Schema, *, corrected: bool) -> None:
        self.path = str(path)
        self.stat = path.stat()
        self.types: list[pa.DataType] = [field.type for field in columns]
        self.groups: list[int] = []
        if not self.stat.st_size:
            return  # as Spark passes it over
        with pq.ParquetFile(path) as file:
            self.types = [_type(file, field, corrected=corrected) for field in columns]
            self.groups = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]

    def portion(self, groups: Iterable[int]) -> Portion:
        return Portion(self.path, self.stat.st_size, self.stat.st_mtime_ns, tuple(sorted(groups)))


def _type(file: pq.ParquetFile, field: pa.Field, *, corrected: bool) -> pa.DataType:
    """The type of a column of the file, whose values are those that Spark finds there."""
    leaves = [file.schema.column(at).path for at in range(len(file.schema))]
    if [path for path in leaves if path.lower() == field.name.lower()] != [field.name]:
        raise _Doubtful  # absent, or there are two of that name
    found = file.schema_arrow.field(field.name).type
    if not _means(found, field.type):
        raise _Doubtful
    if pa.types.is_temporal(found) and not _in_todays_calendar(file.metadata.metadata or {}, corrected):
        raise _Doubtful
    return found


def _means(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether what Arrow reads as one type is what Spark reads as the other."""
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        # Nanoseconds are also what Arrow makes of 96 bits, whose calendar is another matter.
        return found.unit in ("us", "ms") and (found.tz is None) == (wanted.tz is None)
    return bool(types.plain(found) == types.plain(wanted))


def _in_todays_calendar(about: dict[bytes, bytes], corrected: bool) -> bool:
    """Whether Spark takes the days of the file as they are, and not as those of the Julian calendar."""
    if _OLD_CALENDAR in about:
        return False
    return about[_WRITTEN_BY] >= b"3.0.0" if _WRITTEN_BY in about else corrected


def _spread(files: Sequence[_File], cores: int) -> tuple[tuple[Portion, ...], ...]:
    """Row groups shared out among tasks, each to the one that has the fewest rows."""
    groups = [(rows, file, at) for file in files for at, rows in enumerate(file.groups) if rows]
    groups.sort(key=lambda group: -group[0])
    wanted = max(cores, -(-sum(rows for rows, _, _ in groups) // TASK_ROWS))
    tasks: list[dict[_File, list[int]]] = [defaultdict(list) for _ in range(min(wanted, len(groups)))]
    heap = [(0, number) for number in range(len(tasks))]
    for rows, file, at in groups:
        held, number = heap[0]
        tasks[number][file].append(at)
        heapq.heapreplace(heap, (held + rows, number))
    return tuple(tuple(file.portion(chosen) for file, chosen in task.items()) for task in tasks)
