"""The versions of a pipeline: its database over the root document, and the runs that it holds."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from msgspec.structs import replace

from tidemill.pipeline.live import LiveRuns
from tidemill.pipeline.log.root import Root, RootOwner, commit_version, open_version
from tidemill.pipeline.state.database import Database
from tidemill.pipeline.zset import SHARDS
from tidemill.store.blobs import BlobRef


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
