"""Who owns which rows, and how they get there.

Each pipeline worker owns a contiguous range of the shards, hence of the hashes; a change of the number of
pipeline workers moves the borders and no state.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tidemill.pipeline.state.spec import Part
from tidemill.pipeline.zset import SHARDS, ZSet, hash_rows, shard_of

PARCEL_ROWS = 65_536
"""Larger parcels are cut: a few MB at a time travel best."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How shards are spread over a number of pipeline workers."""

    workers: int

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= SHARDS:
            raise ValueError(f"{self.workers} pipeline workers: at least 1, at most {SHARDS}")

    def shards(self, worker: int) -> range:
        """The shards that a pipeline worker owns."""
        return Part(worker, self.workers).shards

    def owners(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """The pipeline worker that owns each hash."""
        owner_of_shard = np.repeat(
            np.arange(self.workers), [len(self.shards(worker)) for worker in range(self.workers)]
        )
        return np.asarray(owner_of_shard[shard_of(hashes)])

    def split(self, z: ZSet, key: Sequence[int]) -> Iterator[tuple[int, ZSet]]:
        """The rows of each pipeline worker, by the hash of their key; the order of rows is kept."""
        if self.workers == 1 or not len(z):
            if len(z):
                yield 0, z
            return
        owners = self.owners(hash_rows(z.rows, key))
        for worker in np.unique(owners):
            yield int(worker), z.filter(owners == worker)


@dataclass(frozen=True, slots=True, eq=False)
class Parcel:
    """Rows on their way to a node in a later stage of a pipeline worker.

    For an exchange, `node` is the exchange; else it is the node whose output is carried on unchanged.
    """

    to: int
    stage: int
    node: int
    port: int
    rows: ZSet


class Exchange(Protocol):
    """How a pipeline worker meets the others, and the only way it does.

    In the batch runtime Spark's shuffle takes this part, between the stages of a job.
    """

    def send(self, parcel: Parcel) -> None:
        """Pass rows on to the pipeline worker that owns them."""
        ...

    def receive(self, stage: int) -> Iterator[Parcel]:
        """What all have sent to this pipeline worker for a stage, once all have ended the stage before."""
        ...


def cut(parcel: Parcel) -> Iterator[Parcel]:
    """The parcel in pieces of bounded size."""
    for start in range(0, len(parcel.rows), PARCEL_ROWS):
        piece = parcel.rows.slice(start, PARCEL_ROWS)
        yield Parcel(parcel.to, parcel.stage, parcel.node, parcel.port, piece)
