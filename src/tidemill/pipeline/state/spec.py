"""What a state is, what a manifest says of one of its runs, and which part of the hashes a worker owns."""

from dataclasses import dataclass

import msgspec
import pyarrow as pa

from tidemill.pipeline.state.order import Direction, check_orderable
from tidemill.pipeline.zset import SHARDS
from tidemill.store.blobs import BlobRef

HASHES = 1 << 64
_SHARD_HASHES = HASHES // SHARDS


@dataclass(frozen=True, slots=True)
class StateSpec:
    """A running sum of Z-sets, and how it is looked up.

    `key` are the columns by whose hash rows are found; `width` is that of the weights (`ZSet.width`);
    `order` are columns that order the rows of one key, each in its one of the `directions`, by default all
    ascending with NULL first; NaN is above all numbers. A state that is not `aligned` is not spread by its
    key: any pipeline worker may hold any hash; with a `home`, the owner of that shard holds all of it.
    """

    name: str
    schema: pa.Schema
    key: tuple[int, ...]
    width: int | None = None
    order: tuple[int, ...] = ()
    aligned: bool = True
    directions: tuple[Direction, ...] = ()
    home: int | None = None

    def __post_init__(self) -> None:
        if self.directions and len(self.directions) != len(self.order):
            raise ValueError(
                f"state {self.name}: {len(self.order)} columns, {len(self.directions)} directions"
            )
        for column in self.order:
            check_orderable(self.schema.field(column))

    @property
    def key_is_row(self) -> bool:
        """Whether the hash of the key is that of the whole row."""
        return self.key == tuple(range(len(self.schema)))


class RunRef(msgspec.Struct, frozen=True):
    """What a manifest says of a run: where it lies and what it spans, so that few are opened in vain.

    `lo` and `hi` are its first and last key hash. `layer` counts the rows of all runs that came out of the
    same merge, itself included: they are disjoint and act as one. `lane` is the shard with whose owner a run
    of a state lies which is not aligned; None where the hash says who owns it.
    """

    state: str
    name: str
    size: int
    digest: str
    lo: int
    hi: int
    rows: int
    layer: int
    lane: int | None = None

    @property
    def blob(self) -> BlobRef:
        return BlobRef(self.size, self.digest, self.name)

    @property
    def shards(self) -> range:
        """The shards in which it may have rows."""
        return range(self.lo // _SHARD_HASHES, self.hi // _SHARD_HASHES + 1)


@dataclass(frozen=True, slots=True)
class Part:
    """What the pipeline worker with this number owns, of so many: a contiguous stretch of shards."""

    worker: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.worker < self.workers <= SHARDS:
            raise ValueError(f"no pipeline worker {self.worker} of {self.workers} over {SHARDS} shards")

    @property
    def shards(self) -> range:
        return range(SHARDS * self.worker // self.workers, SHARDS * (self.worker + 1) // self.workers)

    @property
    def lo(self) -> int:
        """The first hash."""
        return self.shards.start * _SHARD_HASHES

    @property
    def hi(self) -> int:
        """The hash past the last."""
        return self.shards.stop * _SHARD_HASHES

    def touches(self, run: RunRef) -> bool:
        """Whether any row of the run is this worker's."""
        if run.lane is not None:
            return run.lane in self.shards
        return run.lo < self.hi and run.hi >= self.lo

    def owns(self, run: RunRef) -> bool:
        """Whether every row of the run is this worker's, so that it alone may replace the run."""
        return self.touches(run) and (run.lane is not None or (self.lo <= run.lo and run.hi < self.hi))
