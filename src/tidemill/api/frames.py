"""Frames that users hand in, staged as segments of the input log before they count.

A frame of Spark is staged by Spark's tasks, in files that each attempt names for itself; what is nothing but
Parquet files they read themselves (`scans`). Pandas and Arrow frames are staged here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import pandas as pd
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tidemill.api.python_rows import from_rows, from_values
from tidemill.api.scans import parquet_scan
from tidemill.base.ids import new_token
from tidemill.pipeline.errors import AppendFailed, BadInput
from tidemill.pipeline.ingest import WEIGHT, to_change
from tidemill.pipeline.log.segment import SegmentRef, write_segment
from tidemill.pipeline.plan.node import Source
from tidemill.pipeline.runtimes.batch import reason_of
from tidemill.pipeline.types import sql_name
from tidemill.store.blobs import BlobNoSpace, Blobs

Frame: TypeAlias = DataFrame | pd.DataFrame | pa.Table | pa.RecordBatch | Sequence[Mapping[str, Any]]

SEGMENT_ROWS = 500_000
_REF = "ref string"
_REPORTED = (BadInput, AppendFailed, BlobNoSpace)
"""What a task reports rather than raises, the first first: it would be the same if tried again."""


@dataclass(frozen=True, slots=True)
class Staging:
    """Makes segments of one table from frames. Can be pickled: Spark's tasks use it.

    With `weight`, every row has that weight; without, each has its own in `_weight`.
    """

    blobs: Blobs
    folder: str
    table: Source
    weight: int | None
    zone: str

    def stage(self, frame: Frame) -> tuple[SegmentRef, ...]:
        """Check the rows and publish them. Raises `BadInput` when they do not fit; nothing counts yet."""
        if isinstance(frame, DataFrame):
            return self._stage_spark(frame)
        return tuple(self._stage_arrow(self._to_arrow(frame)))

    def _stage_arrow(self, rows: pa.Table) -> Iterator[SegmentRef]:
        for start in range(0, max(rows.num_rows, 1), SEGMENT_ROWS):
            piece = rows.slice(start, SEGMENT_ROWS)
            change = to_change(self.table, piece, weight=self.weight, zone=self.zone)
            if len(change):
                name = f"{self.folder}/in/{new_token()}"
                ref = write_segment(self.blobs, name, self.table.table, change, self.table.shard_key)
                yield msgspec.structs.replace(ref, epoch=self.table.epoch)

    def _stage_spark(self, frame: DataFrame) -> tuple[SegmentRef, ...]:
        _check_names(self.table, frame)
        try:
            refs = self._staged(frame).toArrow().column(0).to_pylist()
        except (PySparkException, Py4JError) as error:
            raise AppendFailed(f"table {self.table.table}: {reason_of(error)}") from error
        found = [msgspec.json.decode(ref) for ref in refs]
        for kind in _REPORTED:
            if errors := sorted(item[kind.code] for item in found if kind.code in item):
                raise kind(errors[0])
        return tuple(msgspec.convert(item, SegmentRef) for item in found)

    def _staged(self, frame: DataFrame) -> DataFrame:
        """The names of the segments, or what went wrong, one a row; files are read without Spark's help."""
        scan = parquet_scan(frame)
        if scan is None:
            return frame.mapInArrow(self._stage_batches, _REF)
        return scan.map(frame.sparkSession, self._stage_batches, _REF)

    def _stage_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs in Spark's tasks: rows in, names of published segments out."""
        try:
            for rows in _gathered(batches):
                for ref in self._stage_arrow(rows):
                    yield pa.RecordBatch.from_pydict({"ref": [msgspec.json.encode(ref).decode()]})
        except _REPORTED as error:
            text = msgspec.json.encode({error.code: str(error)}).decode()
            yield pa.RecordBatch.from_pydict({"ref": [text]})

    def _to_arrow(self, frame: Any) -> pa.Table:
        if isinstance(frame, pa.Table):
            return frame
        if isinstance(frame, pa.RecordBatch):
            return pa.Table.from_batches([frame])
        try:
            if isinstance(frame, pd.DataFrame):
                return self._from_pandas(frame)
            if isinstance(frame, Sequence) and all(isinstance(row, Mapping) for row in frame):
                return from_rows(self.table, frame)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            reason = str(error).partition("\n")[0]
            raise BadInput(f"table {self.table.table}: {reason}") from error
        raise BadInput(
            f"table {self.table.table}: rows come as a frame of Spark, pandas or Arrow, "
            f"or as a list of dicts, not as {type(frame).__name__}"
        )

    def _from_pandas(self, frame: pd.DataFrame) -> pa.Table:
        """Columns of Python objects are taken value by value, the others as they lie in memory."""
        if not len(frame.columns):
            return from_rows(self.table, [])
        return pa.table({str(name): self._column(str(name), frame[name]) for name in frame.columns})

    def _column(self, name: str, column: "pd.Series[Any]") -> pa.Array:
        if column.dtype == object:
            return from_values(self.table, name, _objects(column))
        found = pa.Array.from_pandas(column)
        wanted = {field.name: field.type for field in self.table.schema}.get(name, found.type)
        if pa.types.is_integer(wanted) and pa.types.is_floating(found.type):
            kinds = f"{sql_name(wanted)}, not {found.type}"
            raise BadInput(
                f"table {self.table.table}: column {name} is {kinds}, which pandas makes of "
                f'integers beside NULLs: hand in frame.astype({{"{name}": "Int64"}})'
            )
        return found


def _objects(column: "pd.Series[Any]") -> list[Any]:
    """The values, with None for what pandas takes for missing."""
    return [None if value is pd.NaT or value is pd.NA else value for value in column]


def _check_names(table: Source, frame: DataFrame) -> None:
    if unknown := [name for name in frame.columns if name not in (*table.schema.names, WEIGHT)]:
        raise BadInput(
            f"table {table.table}: no column {', '.join(unknown)}; it has {', '.join(table.schema.names)}"
        )


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together to the size of a segment."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= SEGMENT_ROWS:
            yield pa.Table.from_batches(held)
            held, count = [], 0
    if held:
        yield pa.Table.from_batches(held)
