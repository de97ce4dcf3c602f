"""Reads tables, views and changes from a pipeline's files: here, or spread over Spark's tasks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidemill.api.rows import Rows, as_batch, weighted_schema
from tidemill.pipeline import types
from tidemill.pipeline.log.segment import SegmentRef, read_segment
from tidemill.pipeline.state.files import RunFiles
from tidemill.pipeline.state.spec import Part, RunRef, StateSpec
from tidemill.pipeline.state.spine import Spine
from tidemill.pipeline.zset import ZSet, concat, consolidate
from tidemill.store.blobs import Blobs


@dataclass(frozen=True, slots=True)
class Reader:
    """Makes `Rows` of what files hold. A reader of remote or local files alike."""

    spark: SparkSession
    blobs: Blobs

    def state(self, spec: StateSpec, runs: Sequence[RunRef], step: int) -> Rows:
        """All rows of a state. A frame from it works for as long as the files are kept."""
        scan = Scan(self.blobs, spec, tuple(runs))
        return Rows(step, spec.schema, scan.all, lambda: self._frame(scan, spec.schema))

    def nothing(self, schema: pa.Schema, step: int) -> Rows:
        """No rows, of a table to which none were ever appended."""
        return Rows(step, schema, lambda: iter(()), lambda: self.spark.createDataFrame([], _struct(schema)))

    def change(self, schema: pa.Schema, segments: Sequence[SegmentRef], step: int) -> Rows:
        """The sum of several changes."""

        def pieces() -> Iterator[ZSet]:
            parts = [read_segment(self.blobs, segment) for segment in segments]
            yield consolidate(concat(parts, schema))

        def frame() -> DataFrame:
            wide = types.plain_schema(weighted_schema(schema))
            batches = [as_batch(piece, weighted=True).cast(wide) for piece in pieces()]
            table = pa.Table.from_batches(batches, wide)
            return self.spark.createDataFrame(table, _struct(weighted_schema(schema)))

        return Rows(step, schema, pieces, frame, weighted=True)

    def _frame(self, scan: "Scan", schema: pa.Schema) -> DataFrame:
        count = max(1, self.spark.sparkContext.defaultParallelism)
        numbers = self.spark.range(0, count, 1, count)
        return numbers.mapInArrow(replace(scan, parts=count).batches, _struct(schema))


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a state in `parts` disjoint parts. Can be pickled: Spark's tasks use it."""

    blobs: Blobs
    spec: StateSpec
    runs: tuple[RunRef, ...]
    parts: int = 1

    def all(self) -> Iterator[ZSet]:
        return self.part(0) if self.parts == 1 else iter(())

    def part(self, number: int) -> Iterator[ZSet]:
        # By hash alone, whoever wrote the run: so equal rows meet, and their weights add up.
        spec = replace(self.spec, aligned=True)
        runs = [msgspec.structs.replace(run, lane=None) for run in self.runs]
        yield from Spine(spec, Part(number, self.parts), RunFiles(self.blobs), runs).scan()

    def batches(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs in Spark's tasks: numbers of parts in, rows out."""
        schema = types.plain_schema(self.spec.schema)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for piece in self.part(number):
                    yield as_batch(piece, weighted=False).cast(schema)


def _struct(schema: pa.Schema) -> StructType:
    return StructType.fromJson(types.schema_to_spark(schema))
