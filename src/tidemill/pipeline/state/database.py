"""The database of a pipeline: versions of its state, under keys (state, shard).

    database.open(3)                            # discards the other version
    database.put("totals", 7, runs)
    database.set_step(42)
    database.commit()                           # 3 and 4 can be opened from now on

The value of a key is the list of runs that have rows in the shard. A run may span several shards: it is then
in the value of each, and leaves all of them in one commit.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from tidemill.base.ids import new_token
from tidemill.pipeline.errors import Forgotten, NotOpen
from tidemill.pipeline.state.manifest import Manifest, read_manifest, write_manifest
from tidemill.pipeline.state.spec import RunRef
from tidemill.store.blobs import BlobRef, Blobs

Key = tuple[str, int]


class VersionList(Protocol):
    """The versions of a pipeline, in a document that only its owner writes."""

    def kept(self) -> Mapping[int, BlobRef | None]:
        """The manifests of the one or two versions that can be opened, ascending; None for an empty one."""

    def keep_only(self, version: int) -> None:
        """Discard the other version, durably."""

    def publish(self, version: int, step: int, manifest: BlobRef) -> None:
        """Add a version in one act, and discard all but the last two. Raises `NotOpen` for a former owner."""


class Database:
    """One pipeline's state: at most one version is open, and changes count from its commit on."""

    def __init__(self, blobs: Blobs, versions: VersionList, folder: str, term: int, pipeline: str) -> None:
        self._blobs = blobs
        self._list = versions
        self._folder = f"{folder}/t{term}"
        self._pipeline = pipeline
        self._opened: Manifest | None = None
        self._durable: frozenset[str] = frozenset()
        self._runs: dict[Key, tuple[RunRef, ...]] = {}

    def versions(self) -> range:
        """The versions that can be opened: one or two. A new database has version 0, which is empty."""
        kept = list(self._list.kept())
        return range(kept[0], kept[-1] + 1)

    def open(self, version: int) -> None:
        """Open a version and discard the other. Raises `Forgotten` when it is not kept."""
        kept = self._list.kept()
        if version not in kept:
            raise Forgotten(f"version {version} is not kept; kept are {list(kept)}")
        ref = kept[version]
        self._opened = Manifest(self._pipeline, version) if ref is None else read_manifest(self._blobs, ref)
        self._durable = self._opened.names
        self._list.keep_only(version)
        found: dict[Key, list[RunRef]] = defaultdict(list)
        for state, runs in self._opened.runs.items():
            for run in runs:
                for shard in run.shards:
                    found[state, shard].append(run)
        self._runs = {key: tuple(runs) for key, runs in found.items()}

    def commit(self, *, close: bool = True, **about: Any) -> None:
        """Make what was put the next version, durable on return; `about` are fields of its manifest.

        It is closed then, or else open at the new version, and both can be opened again.

        After a crash on the way the version that was opened is there, and perhaps also the new one. Raises
        `ValueError` when a run was put for only some of the shards that it spans.
        """
        opened = self._manifest()
        # One more than the last that is known, which may be a commit of ours whose answer was lost.
        number = max(opened.version, *self._list.kept()) + 1
        manifest = replace(opened, version=number, runs=self._all_runs(), **about)
        name = f"{self._folder}/s{manifest.step}/manifest-{manifest.version}-{new_token()[:13]}"
        ref = write_manifest(self._blobs, name, manifest, self._durable)
        self._list.publish(manifest.version, manifest.step, ref)
        self._opened, self._durable = (None if close else manifest), manifest.names

    def states(self) -> set[str]:
        """The states of which something was put."""
        self._manifest()
        return {state for state, _ in self._runs}

    def get(self, state: str, shard: int) -> tuple[RunRef, ...]:
        """The runs that have rows of this shard; none when nothing was put."""
        self._manifest()
        return self._runs.get((state, shard), ())

    def put(self, state: str, shard: int, runs: Sequence[RunRef]) -> None:
        """Set the runs of this shard."""
        self._manifest()
        self._runs[state, shard] = tuple(runs)

    def get_step(self) -> int:
        """The next step to be applied."""
        return self._manifest().step

    def set_step(self, step: int) -> None:
        self._opened = replace(self._manifest(), step=step)

    def _manifest(self) -> Manifest:
        if self._opened is None:
            raise NotOpen(f"no version of the state of pipeline {self._pipeline!r} is open")
        return self._opened

    def _all_runs(self) -> dict[str, tuple[RunRef, ...]]:
        """By state, each run once, the oldest first."""
        spans: dict[str, dict[RunRef, set[int]]] = defaultdict(lambda: defaultdict(set))
        for (state, shard), runs in self._runs.items():
            for run in runs:
                spans[state][run].add(shard)
        for found in spans.values():
            for run, shards in found.items():
                if shards != set(run.shards):
                    raise ValueError(f"run {run.name} spans shards {run.shards}, put for {sorted(shards)}")
        return {state: tuple(found) for state, found in spans.items()}
