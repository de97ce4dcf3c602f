"""A manifest: the whole of one version of a pipeline's state, as a list of runs."""

from collections.abc import Container
from typing import Any

import msgspec
from msgspec import Struct

from tidemill.pipeline import failpoint
from tidemill.pipeline.errors import ForeignState
from tidemill.pipeline.state.spec import Part, RunRef
from tidemill.pipeline.zset import SHARDS
from tidemill.store.blobs import BlobRef, Blobs

FORMAT = 1


class Manifest(Struct, frozen=True, omit_defaults=True):
    """The state of every operator before `step`, the next to be applied.

    `offsets` say up to where the inputs are in it; `circuit` names what computed it; `workers` is the number
    of pipeline workers among which the `shards` were spread.
    """

    pipeline: str
    version: int
    step: int = 0
    offsets: dict[str, int] = {}
    circuit: Any = None
    runs: dict[str, tuple[RunRef, ...]] = {}
    workers: int = 1
    shards: int = SHARDS
    format: int = FORMAT

    @property
    def names(self) -> frozenset[str]:
        """The files that it needs."""
        return frozenset(run.name for runs in self.runs.values() for run in runs)

    @property
    def shard_map(self) -> tuple[range, ...]:
        """The shards of each pipeline worker."""
        return tuple(Part(worker, self.workers).shards for worker in range(self.workers))


def write_manifest(blobs: Blobs, name: str, manifest: Manifest, durable: Container[str] = ()) -> BlobRef:
    """Write a manifest after making its runs durable, except those that are so already.

    On return the version can be opened after any crash, once somebody names the result. Raises `BlobMissing`
    when a run is gone. Repeating it with the same content is a success.
    """
    failpoint.reach("state.manifest.before_sync")
    blobs.sync(sorted(run for run in manifest.names if run not in durable))
    failpoint.reach("state.manifest.after_sync")
    ref = blobs.put(name, msgspec.json.encode(manifest, order="sorted"))
    failpoint.reach("state.manifest.after_write")
    return ref


def read_manifest(blobs: Blobs, ref: BlobRef) -> Manifest:
    """Read what was written. Raises `ForeignState` for a format that this release does not know."""
    text = blobs.read(ref)
    found = msgspec.json.decode(text)
    if not isinstance(found, dict) or found.get("format", FORMAT) != FORMAT:
        version = found.get("format") if isinstance(found, dict) else "?"
        raise ForeignState(f"manifest {ref.name} has format {version}; this release reads format {FORMAT}")
    manifest = msgspec.convert(found, Manifest)
    if manifest.shards != SHARDS:
        raise ForeignState(f"manifest {ref.name} has {manifest.shards} shards; this release has {SHARDS}")
    return manifest
