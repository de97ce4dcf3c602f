"""Fragments that run in Spark itself: columns out of a stage, a plain `select`, columns into the next.

A `SparkSelect` node is received by the stage after the one that sends to it. Its rows travel as rows of
Spark in a struct column of their own beside the parcels, so that any function of Spark can be applied.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from tidemill.pipeline import types
from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.exchange import Parcel
from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.plan.node import SparkSelect
from tidemill.pipeline.zset import ZSet

PARCEL_FIELDS = (
    StructField("dest", IntegerType()),
    StructField("stage", IntegerType()),
    StructField("node", IntegerType()),
    StructField("port", IntegerType()),
    StructField("blob", BinaryType()),
)
_WEIGHT = "weight"


def leaving(circuit: Circuit, stage: int) -> tuple[int, ...]:
    """The fragments that take rows from a stage."""
    return tuple(
        position
        for position, node in enumerate(circuit.nodes)
        if isinstance(node, SparkSelect) and circuit.stages[position] == stage + 1
    )


def schema_of(circuit: Circuit, stage: int) -> StructType:
    """What a stage hands to Spark: parcels, and beside them the columns of the fragments."""
    fields = list(PARCEL_FIELDS)
    fragments = leaving(circuit, stage)
    if fragments:
        fields.append(StructField(_WEIGHT, LongType()))
    inputs = [StructField(_sent(at), _columns(_input_schema(circuit, at))) for at in fragments]
    return StructType([*fields, *inputs])


def select(frame: DataFrame, circuit: Circuit, stage: int) -> DataFrame:
    """Apply the fragments that take rows from a stage."""
    for position in leaving(circuit, stage):
        node = circuit.nodes[position]
        assert isinstance(node, SparkSelect)
        others = [f"`{name}`" for name in frame.columns if name != _sent(position)]
        frame = frame.selectExpr(*others, f"`{_sent(position)}`.*")
        if node.where is not None:
            frame = frame.where(f"node <> {position} OR ({node.where})")
        values = ", ".join(f"'c{at}', {column}" for at, column in enumerate(node.columns))
        kept = f"CASE WHEN node = {position} THEN named_struct({values}) END AS `{_received(position)}`"
        frame = frame.selectExpr(*others, kept)
    return frame


def widen(batch: pa.RecordBatch, circuit: Circuit, stage: int) -> pa.RecordBatch:
    """A batch of parcels or of one fragment's rows, with the columns that it lacks as NULL."""
    fragments = leaving(circuit, stage)
    if not fragments:
        return batch
    fields = {_WEIGHT: pa.int64()}
    fields |= {_sent(at): pa.struct(_named(_input_schema(circuit, at))) for at in fragments}
    columns = {name: batch.column(name) for name in batch.schema.names}
    nulls = {name: pa.nulls(len(batch), kind) for name, kind in fields.items() if name not in columns}
    names = [field.name for field in PARCEL_FIELDS] + list(fields)
    return pa.RecordBatch.from_pydict({name: (columns | nulls)[name] for name in names})


def send(parcel: Parcel) -> pa.RecordBatch:
    """The rows of a parcel to a fragment, as rows of Spark."""
    count = len(parcel.rows)
    numbers = {
        name: pa.array(np.full(count, value, np.int32))
        for name, value in zip(
            ("dest", "stage", "node", "port"),
            (parcel.to, parcel.stage, parcel.node, parcel.port),
            strict=True,
        )
    }
    fields = _named(parcel.rows.schema)
    columns = [
        column.cast(field.type) for column, field in zip(parcel.rows.rows.columns, fields, strict=True)
    ]
    rows = pa.StructArray.from_arrays(columns, fields=fields)
    return pa.RecordBatch.from_pydict(
        numbers
        | {
            "blob": pa.nulls(count, pa.binary()),
            _WEIGHT: pa.array(parcel.rows.weights),
            _sent(parcel.node): rows,
        }
    )


def receive(batch: pa.RecordBatch, circuit: Circuit, stage: int) -> Iterator[Parcel]:
    """The rows that fragments put out for a stage."""
    for position in leaving(circuit, stage - 1):
        mine = batch.filter(pc.equal(batch.column("node"), position))
        if mine.num_rows:
            schema = circuit.nodes[position].schema
            found = mine.column(_received(position))
            rows = types.conform(found.flatten(), schema)
            weights = mine.column(_WEIGHT).to_numpy()
            yield Parcel(mine.column("dest")[0].as_py(), stage, position, 0, ZSet(rows, weights))


def as_abort(error: PySparkException, circuit: Circuit) -> StepAborted | None:
    """The error of a job as one of the data, when a fragment raised it; else None."""
    fragments = [at for at, node in enumerate(circuit.nodes) if isinstance(node, SparkSelect)]
    text = str(error)
    if not fragments or f"{__package__.replace('.', '/')}/batch" in text:
        return None
    message = next((line for line in text.splitlines() if line.strip().startswith("[")), "")
    if not message and "Error" not in text:
        return None
    views = dict.fromkeys(name for at in fragments for name in circuit.views_above(at))
    return StepAborted(
        message.strip() or text.strip().splitlines()[-1], view=", ".join(views), operator="spark"
    )


def _sent(position: int) -> str:
    return f"in{position}"


def _received(position: int) -> str:
    return f"out{position}"


def _input_schema(circuit: Circuit, position: int) -> pa.Schema:
    return circuit.nodes[circuit.nodes[position].inputs[0]].schema


def _named(schema: pa.Schema) -> list[pa.Field]:
    """The fields as Spark's tasks give and take them; large arrays are unknown to it."""
    return [pa.field(f"c{at}", types.plain(field.type)) for at, field in enumerate(schema)]


def _columns(schema: pa.Schema) -> StructType:
    fields = [pa.field(f"c{at}", field.type) for at, field in enumerate(schema)]
    return StructType.fromJson(types.schema_to_spark(pa.schema(fields)))
