"""What a view or a change holds, in the form that its reader wants."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidemill.pipeline.errors import PipelineError
from tidemill.pipeline.ingest import WEIGHT
from tidemill.pipeline.runtimes.session import spark_there
from tidemill.pipeline.zset import ZSet

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame


_MOST_ROWS = 2**31


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table, a view or a change, read when they are asked for, as of one step.

    A row that is there n times comes n times; of a change, each row comes once with its `_weight`.
    """

    step: int
    schema: pa.Schema
    pieces: Callable[[], Iterator[ZSet]]
    spread: "Callable[[], DataFrame]"
    weighted: bool = False

    @spark_there()
    def to_arrow(self) -> pa.Table:
        """All rows in this process."""
        batches = [as_batch(piece, weighted=self.weighted) for piece in self.pieces()]
        return pa.Table.from_batches(batches, weighted_schema(self.schema) if self.weighted else self.schema)

    def to_pandas(self) -> "pd.DataFrame":
        """All rows in this process."""
        return self.to_arrow().to_pandas()

    @spark_there()
    def to_spark(self) -> "DataFrame":
        """A frame that Spark's tasks read from the pipeline's files. It shows this step, whatever comes."""
        return self.spread()

    def __iter__(self) -> Iterator[dict[str, object]]:
        for batch in self.to_arrow().to_batches():
            yield from batch.to_pylist()

    def __repr__(self) -> str:
        return f"Rows(step={self.step}, columns={self.schema.names})"


def as_batch(piece: ZSet, *, weighted: bool) -> pa.RecordBatch:
    """A piece as plain rows."""
    if weighted:
        columns = [*piece.rows.columns, pa.array(piece.weights)]
        return pa.RecordBatch.from_arrays(columns, schema=weighted_schema(piece.schema))
    if (piece.weights == 1).all():
        return piece.rows
    if float(np.maximum(piece.weights, 0).sum(dtype=np.float64)) > _MOST_ROWS:
        raise PipelineError(
            "a row is there more often than can be listed; read the changes, which have weights"
        )
    return piece.take(np.repeat(np.arange(len(piece)), np.maximum(piece.weights, 0))).rows


def weighted_schema(schema: pa.Schema) -> pa.Schema:
    return schema.append(pa.field(WEIGHT, pa.int64(), nullable=False))
