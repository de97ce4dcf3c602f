"""A run: pieces in ascending key hash, in memory or as a file.

The rows of one hash lie in one piece unless they are too many; then they go on in the next.

The file is an Arrow IPC file, a record batch for each piece:

    h        uint64                         hash of the key; ascending
    r        uint64                         hash of the row; left out where the key is the row
    ...      the columns of the row
    w        int64, or a list of `width`    weights

It is not compressed, so that mapping it costs what is touched. The metadata of its schema says the format and
the state: its name, key, order and width.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.pipeline.errors import ForeignState
from tidemill.pipeline.state.order import Direction
from tidemill.pipeline.state.piece import Piece, arrange, hash_change, join
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import ZSet
from tidemill.pipeline.zset.hashing import Hashes
from tidemill.pipeline.zset.value import Indices, batch
from tidemill.store.blobs import Mapped

FORMAT = b"1"
PIECE_ROWS = 1 << 19
PIECE_BYTES = 32 << 20

_FORMAT, _STATE = b"tidemill.run", b"tidemill.state"
_BLOCK = 1 << 18


class Run:
    """Sorted, consolidated rows of one state."""

    def __init__(self, pieces: Sequence[Piece], mapped: Mapped | None = None) -> None:
        self.pieces = tuple(pieces)
        self._mapped = mapped

    @cached_property
    def rows(self) -> int:
        return sum(len(piece) for piece in self.pieces)

    @cached_property
    def bytes(self) -> int:
        return sum(piece.bytes for piece in self.pieces)

    @cached_property
    def firsts(self) -> Hashes:
        """The first hash of each piece."""
        return np.array([piece.hashes[0] for piece in self.pieces], np.uint64)

    @cached_property
    def lasts(self) -> Hashes:
        """The last hash of each piece."""
        return np.array([piece.hashes[-1] for piece in self.pieces], np.uint64)

    @cached_property
    def _before(self) -> list[int]:
        """How many rows come before each piece."""
        return list(itertools.accumulate((len(piece) for piece in self.pieces), initial=0))

    def rank(self, bound: int) -> int:
        """How many rows have a smaller hash."""
        if bound > 2**64 - 1:
            return self.rows
        index = int(np.searchsorted(self.lasts, np.uint64(bound)))
        if index == len(self.pieces):
            return self.rows
        return self._before[index] + int(np.searchsorted(self.pieces[index].hashes, np.uint64(bound)))

    def between(self, lo: int, hi: int) -> "Run":
        """The rows with lo <= hash < hi, without a copy."""
        found = []
        for piece in self.pieces:
            if lo <= int(piece.hashes[0]) and int(piece.hashes[-1]) < hi:
                found.append(piece)
            elif lo <= int(piece.hashes[-1]) and int(piece.hashes[0]) < hi:
                start = np.searchsorted(piece.hashes, np.uint64(lo))
                stop = np.searchsorted(piece.hashes, np.uint64(hi)) if hi < 2**64 else len(piece)
                found.append(piece.slice(int(start), int(stop)))
        return Run([piece for piece in found if len(piece)], self._mapped)

    def find(self, hashes: Hashes) -> Iterator[tuple[Piece, Indices, Indices]]:
        """Where these ascending hashes lie: for each piece, pairs of (which hash, which row)."""
        for piece, start, stop in self._touched(hashes):
            wanted = hashes[start:stop]
            if len(wanted) <= len(piece):
                probe, row = expand(*spans(wanted, piece.hashes))
            else:
                row, probe = expand(*spans(piece.hashes, wanted))
            if len(probe):
                yield piece, probe + start, row

    def spans(self, hashes: Hashes) -> Iterator[tuple[Piece, Indices, Indices, Indices]]:
        """As `find`, but for each hash that is there its first row and how many rows it has."""
        for piece, start, stop in self._touched(hashes):
            probe, first, count = spans(hashes[start:stop], piece.hashes)
            if len(probe):
                yield piece, probe + start, first, count

    def check(self) -> None:
        """Raise `BlobDamaged` unless the memory of these pieces is what was written. Costs reading it."""
        if self._mapped is None:
            return
        base = pa.py_buffer(self._mapped.view(check=False)).address
        for piece in self.pieces:
            columns = [piece.hashes, piece.row_hashes, piece.z.weights.reshape(-1)]
            arrays = [*(pa.array(column) for column in columns), *piece.z.rows.columns]
            buffers = [buffer for array in arrays for buffer in array.buffers() if buffer is not None]
            start = min(buffer.address for buffer in buffers if buffer.size)
            stop = max(buffer.address + buffer.size for buffer in buffers if buffer.size)
            self._mapped.view(start - base, stop - start)

    def _touched(self, hashes: Hashes) -> Iterator[tuple[Piece, int, int]]:
        """The pieces in whose range some of the ascending hashes lie: from which to which."""
        first = np.searchsorted(hashes, self.firsts, "left").tolist()
        last = np.searchsorted(hashes, self.lasts, "right").tolist()
        for piece, start, stop in zip(self.pieces, first, last, strict=True):
            if start < stop:
                yield piece, start, stop


def spans(few: Hashes, many: Hashes) -> tuple[Indices, Indices, Indices]:
    """Which of the few are among the many, both ascending: where first, and how often.

    Costs |few| * log |many|.
    """
    starts = np.searchsorted(many, few)
    starts[starts == len(many)] = 0  # so that it can be looked at; it is not equal
    hits = np.flatnonzero(many[starts] == few)
    starts = starts[hits]
    return hits, starts, np.searchsorted(many, few[hits], "right") - starts


def expand(ids: Indices, starts: Indices, counts: Indices) -> tuple[Indices, Indices]:
    """For each id, itself paired with each of `count` positions from its start on. No count is zero."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    if total == len(ids):  # one each: the common case
        return ids, starts
    return np.repeat(ids, counts), np.arange(total) + np.repeat(starts - ends + counts, counts)


def sort_run(change: ZSet, spec: StateSpec) -> Run:
    """A run in memory of any Z-set. Raises `StepAborted` when a weight does not fit."""
    return Run(list(cut_pieces(arrange(hash_change(change, spec), spec))))


def cut_pieces(piece: Piece) -> Iterator[Piece]:
    """The same rows in pieces of bounded size; rows of one hash stay together."""
    if not len(piece):
        return
    limit = max(1, min(PIECE_ROWS, PIECE_BYTES * len(piece) // max(1, piece.bytes)))
    start = 0
    while start < len(piece):
        stop = start + limit
        if stop < len(piece):
            # Back to where the hash begins, or if it fills the piece, on to where it ends.
            stop = int(np.searchsorted(piece.hashes, piece.hashes[stop], "left"))
            if stop <= start:
                stop = int(np.searchsorted(piece.hashes, piece.hashes[start], "right"))
        stop = min(stop, len(piece))
        yield piece.slice(start, stop)
        start = stop


def file_schema(spec: StateSpec) -> pa.Schema:
    """The columns of a run's file, and what it says of the state."""
    hashes = ["h"] if spec.key_is_row else ["h", "r"]
    weight = pa.int64() if spec.width is None else pa.list_(pa.int64(), spec.width)
    about: dict[str, Any] = {
        "state": spec.name,
        "key": spec.key,
        "order": spec.order,
        "width": spec.width,
        "columns": len(spec.schema),
    }
    if spec.directions:  # not said of a state where all ascend: that is how files without it are
        about["directions"] = [[way.descending, way.nulls_last] for way in spec.directions]
    return pa.schema(
        [*(pa.field(name, pa.uint64()) for name in hashes), *spec.schema, pa.field("w", weight)],
        metadata={_FORMAT: FORMAT, _STATE: json.dumps(about).encode()},
    )


def write_run(sink: Any, pieces: Iterable[Piece], spec: StateSpec) -> None:
    """Write the file of a run to a binary file; `pieces` come in ascending hash."""
    schema = file_schema(spec)
    writer = pa.ipc.new_file(sink, schema)
    for whole in _gathered(pieces, spec):
        for piece in cut_pieces(whole):
            writer.write_batch(_to_batch(piece, spec, schema))
    writer.close()  # only now: after an error it would write on, and hide the error behind another


def _gathered(pieces: Iterable[Piece], spec: StateSpec) -> Iterator[Piece]:
    """The same rows without tiny pieces, as each costs every lookup."""
    held: list[Piece] = []
    for piece in pieces:
        held.append(piece)
        if sum(map(len, held)) >= PIECE_ROWS // 2 or sum(one.bytes for one in held) >= PIECE_BYTES // 2:
            yield join(held, spec)
            held = []
    if held:
        yield join(held, spec)


def read_run(mapped: Mapped, name: str, spec: StateSpec) -> Run:
    """The run in a mapped file; reads its footer and what describes each piece.

    Raises `ForeignState` when it is not a run of this state in a format that this release knows.
    """
    with _reader(mapped, name) as reader:
        found, wanted = reader.schema, file_schema(spec)
        if found.metadata[_STATE] != wanted.metadata[_STATE] or found.types != wanted.types:
            raise ForeignState(
                f"{name} belongs to {found.metadata[_STATE].decode()} with columns {found.types}, not to "
                f"{wanted.metadata[_STATE].decode()} with {wanted.types}"
            )
        batches = [reader.get_batch(index) for index in range(reader.num_record_batches)]
    return Run([_from_batch(found, spec) for found in batches], mapped)


def read_spec(mapped: Mapped, name: str, *, aligned: bool) -> StateSpec:
    """What the file says of its state. Raises as `read_run`."""
    with _reader(mapped, name) as reader:
        schema = reader.schema
    about = json.loads(schema.metadata[_STATE])
    key, order = tuple(about["key"]), tuple(about["order"])
    columns = range(len(schema) - 1 - about["columns"], len(schema) - 1)
    rows = pa.schema([schema.field(index) for index in columns])
    directions = tuple(Direction(*way) for way in about.get("directions", ()))
    return StateSpec(about["state"], rows, key, about["width"], order, aligned, directions)


@contextmanager
def _reader(mapped: Mapped, name: str) -> Iterator[pa.RecordBatchFileReader]:
    # The footer is checked at once, as everything is found through it; a small run is that block alone.
    mapped.view(max(0, (mapped.size - 1) // _BLOCK * _BLOCK))
    try:
        with pa.ipc.open_file(pa.py_buffer(mapped.view(check=False))) as reader:
            version = (reader.schema.metadata or {}).get(_FORMAT, b"?")
            if version != FORMAT:
                raise ForeignState(
                    f"{name} is a run of format {version.decode()}; "
                    f"this release reads format {FORMAT.decode()}"
                )
            yield reader
    except pa.ArrowInvalid as error:
        mapped.view()  # says so if it is damaged
        raise ForeignState(f"{name} is not the file of a run: {error}") from error


def _to_batch(piece: Piece, spec: StateSpec, schema: pa.Schema) -> pa.RecordBatch:
    hashes = [piece.hashes] if spec.key_is_row else [piece.hashes, piece.row_hashes]
    weights = pa.array(np.ascontiguousarray(piece.z.weights).reshape(-1))
    if spec.width is not None:
        weights = pa.FixedSizeListArray.from_arrays(weights, spec.width)
    arrays = [*(pa.array(column) for column in hashes), *piece.z.rows.columns, weights]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _from_batch(found: pa.RecordBatch, spec: StateSpec) -> Piece:
    columns = found.columns
    hashes = columns[0].to_numpy()
    first = 1 if spec.key_is_row else 2
    rows = batch(columns[first:-1], spec.schema, found.num_rows)
    weights: npt.NDArray[np.int64]
    if spec.width is None:
        weights = columns[-1].to_numpy()
    else:
        weights = columns[-1].flatten().to_numpy().reshape(-1, spec.width)
    return Piece(hashes, hashes if spec.key_is_row else columns[1].to_numpy(), ZSet(rows, weights))
