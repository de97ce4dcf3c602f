"""Fragments that run in Spark itself: columns out of a stage, a plain `select`, columns into the next.

A `SparkSelect` node is received by the stage after the one that sends to it. Its rows travel as rows of
Spark in a struct column of their own beside the parcels, so that any function of Spark can be applied.
"""

import re
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from tidemill.pipeline import types
from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.exchange import Parcel
from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.plan.node import SparkSelect
from tidemill.pipeline.runtimes.functions import Functions, called_by
from tidemill.pipeline.zset import ZSet

PARCEL_FIELDS = (
    StructField("dest", IntegerType()),
    StructField("stage", IntegerType()),
    StructField("node", IntegerType()),
    StructField("port", IntegerType()),
    StructField("blob", BinaryType()),
)
_WEIGHT = "weight"
_TOLD = re.compile(r"AS `(out\d+)`")
_COLUMN = re.compile(r"\bc\d+\b")
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\] .*")
_OF_DATA = re.compile(r"SQLSTATE: 2[12]")  # data exceptions, and rows that are too many


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
    inputs = [StructField(_sent(at), _columns(_read(circuit, at))) for at in fragments]
    return StructType([*fields, *inputs])


def select(frame: DataFrame, circuit: Circuit, stage: int, workers: int) -> DataFrame:
    """Apply the fragments that take rows from a stage, each to its own rows and to nothing else.

    Spark evaluates a Python function for every row that comes by, whatever condition it stands under; so the
    rows are taken apart and put together again. The shuffle in between is one that Spark makes once and
    reads several times; were it made again, the same rows would come, as a stage is deterministic.
    """
    fragments = leaving(circuit, stage)
    if not fragments:
        return frame
    shuffled = frame.repartitionById(workers, "dest")
    parcels = [field.name for field in PARCEL_FIELDS]
    result = shuffled.mapInArrow(Keep(None), frame.schema).select(*parcels)
    for position in fragments:
        mine = shuffled.mapInArrow(Keep(position), frame.schema)
        result = result.unionByName(_computed(mine, circuit, position), allowMissingColumns=True)
    return result


def _computed(frame: DataFrame, circuit: Circuit, position: int) -> DataFrame:
    node = circuit.nodes[position]
    assert isinstance(node, SparkSelect)
    head = [*(f"`{field.name}`" for field in PARCEL_FIELDS), f"`{_WEIGHT}`"]
    frame = frame.selectExpr(*head, f"`{_sent(position)}`.*")
    if node.where is not None:
        frame = frame.where(node.where)
    values = ", ".join(f"'c{at}', {column}" for at, column in enumerate(node.columns))
    return frame.selectExpr(*head, f"named_struct({values}) AS `{_received(position)}`")


class Keep:
    """Keeps the rows of one fragment, or with None the parcels. Not as a filter: Spark would move that."""

    def __init__(self, node: int | None) -> None:
        self.node = node

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if self.node is None:
                yield batch.filter(pc.is_valid(batch.column("blob")))
            else:
                rows = pc.and_(pc.equal(batch.column("node"), self.node), pc.is_null(batch.column("blob")))
                yield batch.filter(rows)


def widen(batch: pa.RecordBatch, circuit: Circuit, stage: int) -> pa.RecordBatch:
    """A batch of parcels or of one fragment's rows, with the columns that it lacks as NULL."""
    fragments = leaving(circuit, stage)
    if not fragments:
        return batch
    fields = {_WEIGHT: pa.int64()}
    fields |= {_sent(at): pa.struct(_named(_read(circuit, at))) for at in fragments}
    columns = {name: batch.column(name) for name in batch.schema.names}
    nulls = {name: pa.nulls(len(batch), kind) for name, kind in fields.items() if name not in columns}
    names = [field.name for field in PARCEL_FIELDS] + list(fields)
    return pa.RecordBatch.from_pydict({name: (columns | nulls)[name] for name in names})


def send(parcel: Parcel, circuit: Circuit) -> pa.RecordBatch:
    """The rows of a parcel to a fragment, as rows of Spark, of which it gets the columns that it reads."""
    count = len(parcel.rows)
    numbers = {
        name: pa.array(np.full(count, value, np.int32))
        for name, value in zip(
            ("dest", "stage", "node", "port"),
            (parcel.to, parcel.stage, parcel.node, parcel.port),
            strict=True,
        )
    }
    read = _read(circuit, parcel.node)
    fields = _named(read)
    columns = [parcel.rows.rows.column(at).cast(field.type) for at, field in zip(read, fields, strict=True)]
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
        rows = pc.and_(pc.equal(batch.column("node"), position), pc.is_null(batch.column("blob")))
        mine = batch.filter(rows)
        if mine.num_rows:
            schema = circuit.nodes[position].schema
            found = mine.column(_received(position))
            columns = types.conform(found.flatten(), schema)
            weights = mine.column(_WEIGHT).to_numpy()
            yield Parcel(mine.column("dest")[0].as_py(), stage, position, 0, ZSet(columns, weights))


def as_abort(
    error: PySparkException | Py4JError, circuit: Circuit, functions: Functions
) -> StepAborted | None:
    """The error of a job as one of the data, when a fragment raised it; else None."""
    fragments = [at for at, node in enumerate(circuit.nodes) if isinstance(node, SparkSelect)]
    text = str(error)
    if not fragments or f"{__package__.replace('.', '/')}/batch" in text:
        return None
    # Some of Spark's functions raise what PySpark passes on raw, as it does what befalls the machinery.
    if not isinstance(error, PySparkException) and not _OF_DATA.search(text):
        return None
    message = _CONDITION.search(text)
    if not message and "Error" not in text:
        return None
    fragments = _blamed(text, circuit, functions) or fragments
    views = dict.fromkeys(name for at in fragments for name in circuit.views_above(at))
    operator = f"sparkselect {fragments[0]}" if len(fragments) == 1 else "sparkselect"
    said = message[0] if message else text.strip().splitlines()[-1]
    return StepAborted(said.strip(), view=", ".join(views), operator=operator)


def _blamed(text: str, circuit: Circuit, functions: Functions) -> list[int]:
    """The fragments that an error tells of: by a Python function, or by the SQL that Spark points at."""
    raised, told = functions.in_trace(text), set(_TOLD.findall(text))
    return [
        at
        for at, node in enumerate(circuit.nodes)
        if isinstance(node, SparkSelect) and (raised & called_by(node) or _received(at) in told)
    ]


def _sent(position: int) -> str:
    return f"in{position}"


def _received(position: int) -> str:
    return f"out{position}"


def _read(circuit: Circuit, position: int) -> dict[int, pa.DataType]:
    """The types of the input's columns, by position, that a fragment speaks of, or the first.

    A text may say c7 without meaning a column: then that one goes along for nothing.
    """
    node = circuit.nodes[position]
    assert isinstance(node, SparkSelect)
    spoken = set(_COLUMN.findall(" ".join((*node.columns, node.where or ""))))
    schema = circuit.nodes[node.inputs[0]].schema
    every = [(at, field.type) for at, field in enumerate(schema)]
    return dict([column for column in every if f"c{column[0]}" in spoken] or every[:1])


def _named(read: dict[int, pa.DataType]) -> list[pa.Field]:
    """The fields as Spark's tasks give and take them; large arrays are unknown to it."""
    return [pa.field(f"c{at}", types.plain(kind)) for at, kind in read.items()]


def _columns(read: dict[int, pa.DataType]) -> StructType:
    fields = [pa.field(f"c{at}", kind) for at, kind in read.items()]
    return StructType.fromJson(types.schema_to_spark(pa.schema(fields)))
