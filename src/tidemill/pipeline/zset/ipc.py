"""A Z-set as bytes: an Arrow IPC stream of its columns and its weights."""

from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.zset.value import ZSet, batch, pick

_WIDTH = b"tidemill.width"
_LENGTH = b"tidemill.length"


def to_ipc(z: ZSet) -> pa.Buffer:
    """The bytes, to be read by `from_ipc` of this release."""
    columns = [z.weights] if z.width is None else [z.weights[:, k].copy() for k in range(z.width)]
    weights = [pa.array(column) for column in columns]
    fields = [pa.field(f"w{k}", pa.int64()) for k in range(len(weights))]
    metadata = {_WIDTH: b"" if z.width is None else str(z.width).encode(), _LENGTH: str(len(z)).encode()}
    schema = pa.schema([*z.schema, *fields], metadata=metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([*z.rows.columns, *weights], schema=schema))
    return sink.getvalue()


def from_ipc(source: Any) -> ZSet:
    """The Z-set, as views into the bytes."""
    with pa.ipc.open_stream(source) as reader:
        found = reader.read_next_batch()
    width = found.schema.metadata[_WIDTH]
    count = int(width) if width else 1
    columns = found.num_columns - count
    arrays = [found.column(columns + k).to_numpy() for k in range(count)]
    weights = np.stack(arrays, axis=1) if width else arrays[0]
    rows = (
        pick(found, range(columns))
        if columns
        else batch([], pa.schema([]), int(found.schema.metadata[_LENGTH]))
    )
    return ZSet(rows, weights)
