"""Segments: rows of one table or view in one immutable file, so laid out that a reader takes only its shards.

The file is an Arrow IPC stream. Rows are ordered by the hash of their key, hence by shard, and rows of one
key as they came; the last column holds their weights. The metadata of its schema says where each shard begins
and how long each batch is, so that the bytes of some shards are found, mapped and checked without touching
the others.
"""

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from tidemill.pipeline.errors import ForeignState
from tidemill.pipeline.failpoint import reach
from tidemill.pipeline.log.file import FileRef
from tidemill.pipeline.zset import SHARDS, ZSet, concat, hash_rows, pick, shard_of
from tidemill.pipeline.zset.hashing import ascending
from tidemill.store.blobs import BlobRef, Blobs, Mapped

FORMAT = 1
BATCH_ROWS = 16_384
"""Shards share a batch until it has this many rows, so that small segments have just one."""

ALL_SHARDS = range(SHARDS)

_KEY = b"tidemill.segment"
_WEIGHT = pa.field("_weight", pa.int64(), nullable=False)
_PREFIX = 8  # an encapsulated Arrow message: a mark, then the length of what follows, four bytes each


class SegmentRef(Struct, frozen=True, omit_defaults=True):
    """Where a segment lies. `sum` adds up hash times weight of its rows: see `write_segment`.

    `epoch` tells a table from an earlier one of the same name.
    """

    table: str
    rows: int
    file: FileRef
    sum: int | None = None
    epoch: int = 0

    @property
    def blob(self) -> BlobRef:
        return self.file.blob


class _Layout(Struct, frozen=True):
    """`starts[s]` is the first row of shard s, with one entry more for the end; `batches` are bytes."""

    format: int
    table: str
    starts: list[int]
    batches: list[int]
    cuts: list[int]


def write_segment(
    blobs: Blobs,
    name: str,
    table: str,
    change: ZSet,
    key: Sequence[int] | None,
    *,
    summed: bool = False,
    durable: bool = True,
) -> SegmentRef:
    """Publish the rows under the name, durable on return, split by the shard of their `key` columns.

    Without a key the rows stay as they are, all of them in shard 0. With `summed`, the reference carries a
    number by which two changes can be compared: it is the same whatever the order of the rows, the number
    of files they are spread over, and whether equal rows are added up. Without `durable`, the segment may
    not be referred to before `Blobs.sync`. Repeating it is safe; the same name with other rows raises
    `BlobExists`.
    """
    change, starts = (change, _all_in_first(len(change))) if key is None else _by_shard(change, key)
    cuts = _cuts(starts)
    rows = pa.RecordBatch.from_arrays(
        [*change.rows.columns, pa.array(change.weights)], schema=pa.schema([*change.schema, _WEIGHT])
    )
    batches = [rows.slice(start, stop - start) for start, stop in pairwise(cuts)]
    sizes = [int(pa.ipc.get_record_batch_size(batch)) for batch in batches]
    layout = _Layout(FORMAT, table, starts.tolist(), sizes, cuts)
    schema = rows.schema.with_metadata({_KEY: msgspec.json.encode(layout)})
    with blobs.create(name, durable=durable) as writer:
        writer.write(schema.serialize())
        for batch in batches:
            writer.write(batch.serialize())
        writer.write(b"\xff\xff\xff\xff\x00\x00\x00\x00")  # the end of an Arrow stream
    reach("log.segment.after_write")
    return SegmentRef(table, len(change), FileRef.of(writer.ref), sum_of(change) if summed else None)


def read_segment(blobs: Blobs, ref: SegmentRef, shards: range = ALL_SHARDS) -> ZSet:
    """The rows of these shards, shard after shard, as views into the mapped file.

    Raises `ForeignState` when a newer release wrote the file, or it is no segment of this table.
    """
    with blobs.map(ref.blob) as mapped:
        schema, layout, body = _read_layout(mapped, ref)
        first, last = layout.starts[shards.start], layout.starts[shards.stop]
        parts = []
        at = body
        for size, (start, stop) in zip(layout.batches, pairwise(layout.cuts), strict=True):
            begin, end = max(first, start), min(last, stop)
            if begin < end:
                batch = pa.ipc.read_record_batch(pa.py_buffer(mapped.view(at, size)), schema)
                parts.append(_as_zset(batch.slice(begin - start, end - begin)))
            at += size
    return concat(parts, pa.schema(list(schema)[:-1]))


def sum_of(change: ZSet) -> int:
    """The sum of hash times weight over all rows, modulo 2**64, as a signed number."""
    with np.errstate(over="ignore"):
        products = hash_rows(change.rows) * change.weights.astype(np.uint64)
    return int(products.sum(dtype=np.uint64).astype(np.int64))


def _by_shard(change: ZSet, key: Sequence[int]) -> tuple[ZSet, npt.NDArray[np.int64]]:
    hashes = hash_rows(change.rows, key)
    starts = np.concatenate(([0], np.cumsum(np.bincount(shard_of(hashes), minlength=SHARDS)))).astype(
        np.int64
    )
    # By the whole hash, not the shard alone: whoever sorts the rows again finds them nearly in order.
    return change.take(ascending(hashes)), starts


def _all_in_first(rows: int) -> npt.NDArray[np.int64]:
    return np.array([0] + [rows] * SHARDS, np.int64)


def _cuts(starts: npt.NDArray[np.int64]) -> list[int]:
    """The rows at which batches begin, and the end: at shard boundaries, and not too near each other."""
    cuts = [0]
    for start in starts[1:].tolist():
        if start - cuts[-1] >= BATCH_ROWS:
            cuts.append(start)
    if cuts[-1] != starts[-1]:
        cuts.append(int(starts[-1]))
    return cuts


def _read_layout(mapped: Mapped, ref: SegmentRef) -> tuple[pa.Schema, _Layout, int]:
    """The schema of the batches, their layout, and the byte at which the first begins."""
    body = _PREFIX + int.from_bytes(mapped.view(4, 4), "little", signed=True)
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(mapped.view(0, body)))
        raw = schema.metadata[_KEY]
        written_as = msgspec.json.decode(raw)["format"]
        if written_as != FORMAT:
            raise ForeignState(
                f"segment {ref.file.name} has format {written_as}, and this release reads {FORMAT}"
            )
        layout = msgspec.json.decode(raw, type=_Layout)
    except (pa.ArrowInvalid, ValueError, KeyError, TypeError) as error:
        raise ForeignState(f"{ref.file.name} is not a segment: {error}") from error
    if layout.table != ref.table:
        raise ForeignState(f"{ref.file.name} holds rows of {layout.table!r}, not of {ref.table!r}")
    return schema, layout, body


def _as_zset(batch: pa.RecordBatch) -> ZSet:
    columns = batch.num_columns - 1
    return ZSet(pick(batch, range(columns)), batch.column(columns).to_numpy())
