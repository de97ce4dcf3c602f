"""The versions of a pipeline: its database over the root document, its pins, and the runs that they hold."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from msgspec.structs import replace

from tidemill.pipeline.live import LiveRuns
from tidemill.pipeline.log.root import (
    Root,
    RootOwner,
    commit_version,
    open_version,
    pin,
    pinned,
    unpin,
)
from tidemill.pipeline.state.database import Database
from tidemill.pipeline.state.manifest import Manifest, read_manifest
from tidemill.pipeline.zset import SHARDS
from tidemill.store.blobs import BlobRef, Blobs


class RootVersions:
    """The versions as the root lists them: a `VersionList` in the hands of the pipeline's owner.

    `catalog` is what the root's catalog says once the next version is published.
    """

    def __init__(self, owner: RootOwner, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._owner = owner
        self._run = run
        self.catalog: Any = None

    def kept(self) -> Mapping[int, BlobRef | None]:
        return {version.number: version.manifest for version in self._owner.root.versions}

    def keep_only(self, version: int) -> None:
        self._run(self._owner.update(lambda root: open_version(root, version)))

    def publish(self, version: int, step: int, manifest: BlobRef) -> None:
        def settle(root: Root) -> Root:
            # A write whose answer was lost may have happened: then this version is there.
            if root.version.manifest == manifest:
                return root
            if root.version.number + 1 != version:
                raise ValueError(f"version {version} does not follow {root.version.number}")
            return commit_version(replace(root, catalog=self.catalog), step, manifest)

        self._run(self._owner.update(settle))


class RootPins:
    """The pins as the root lists them, in the hands of the pipeline's owner."""

    def __init__(
        self, owner: RootOwner, blobs: Blobs, run: Callable[[Coroutine[Any, Any, Any]], Any]
    ) -> None:
        self._owner = owner
        self._blobs = blobs
        self._run = run

    def add(self, name: str, version: int) -> None:
        """Pin a version that is kept, durable on return. Repeating it changes nothing."""
        self._run(self._owner.update(lambda root: pin(root, name, version)))

    def remove(self, name: str) -> None:
        """Take a pin out. Raises `NoSuchName` when there is none of that name."""
        self._run(self._owner.update(lambda root: unpin(root, name)))

    def runs(self, name: str) -> LiveRuns:
        """The runs of a pinned version. Raises `NoSuchName` when there is none of that name."""
        ref = pinned(self._owner.root, name).manifest
        manifest = Manifest("", 0) if ref is None else read_manifest(self._blobs, ref)
        return LiveRuns(manifest.runs, manifest.step)


def runs_of(database: Database) -> LiveRuns:
    """The runs of the open version."""
    found: dict[str, dict[str, Any]] = {}
    for state in database.states():
        runs = (run for shard in range(SHARDS) for run in database.get(state, shard))
        found[state] = {run.name: run for run in runs}
    return LiveRuns({state: tuple(runs.values()) for state, runs in found.items()}, database.get_step())


def put_runs(database: Database, runs: LiveRuns) -> None:
    """Make these the runs of the version that is committed next."""
    for state in {*database.states(), *runs.by_state}:
        for shard in range(SHARDS):
            database.put(state, shard, [run for run in runs.of(state) if shard in run.shards])
