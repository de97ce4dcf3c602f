"""The folder of a pipeline that is used as a library: its lock, its documents, its files.

owner.lock      held by the process that has it open
tidemill.db     SQLite: the log head and the root
blobs/          segments, runs, manifests, plans

Or, when those lie elsewhere:

blobs.claim     what the blob "claim" must hold there, so that no two pipelines share a place
cache/          what was read from there lately
"""

import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from tidemill.base.bridge import LoopThread
from tidemill.base.ids import new_token
from tidemill.pipeline.engine import Place
from tidemill.pipeline.errors import ForeignState
from tidemill.pipeline.log.folder import LOCK, FolderLock
from tidemill.store import open_store
from tidemill.store.blobs import BlobExists, Blobs, CacheFolder, open_blobs

T = TypeVar("T")

_DATABASE = "tidemill.db"
_BLOBS = "blobs"
_CLAIM = "blobs.claim"
_CACHE = "cache"
_KEY = "pipeline"


class PipelineFolder:
    """An open folder. Raises `AlreadyOpen` when another process has it, `ForeignState` for other content."""

    def __init__(self, path: Path, blobs: str | Blobs | None = None) -> None:
        if "://" in str(path) or ":/" in str(path):
            raise ForeignState(f"{path}: a pipeline's folder is a path of this machine")
        self.path = path.expanduser().absolute()
        self._check()
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(self.path)
        self._loop = LoopThread("tidemill-pipeline").start()
        try:
            opened = self._open_blobs(blobs)
            store = open_store(f"sqlite:///{self.path / _DATABASE}")
            self._store = store
            self._run(store.open())
        except BaseException:
            self._loop.stop()
            self._lock.release()
            raise
        self.place = Place(store, opened, _KEY, self._run)

    def close(self) -> None:
        """Let others have the folder. Safe to repeat."""
        if self._loop.loop.is_closed():
            return
        try:
            self._run(self._store.close())
        finally:
            self._loop.stop()
            self._lock.release()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(work)

    def _open_blobs(self, given: str | Blobs | None) -> Blobs:
        claim = self.path / _CLAIM
        if given is None:
            if claim.exists():
                raise ForeignState(f"{self.path}: its files lie elsewhere; say where with blobs=")
            return open_blobs((self.path / _BLOBS).as_uri(), create=True)
        if (self.path / _BLOBS).exists():
            raise ForeignState(f"{self.path}: its files lie in it; open it without blobs=")
        if isinstance(given, str):
            given = open_blobs(given, create=True, cache=CacheFolder(self.path / _CACHE))
        if not claim.exists() or not claim.read_bytes():
            with claim.open("w") as file:
                file.write(new_token())
                file.flush()
                os.fsync(file.fileno())
        try:
            given.put("claim", claim.read_bytes())
        except BlobExists:
            raise ForeignState(
                f"{self.path}: another pipeline has its files there; choose another place"
            ) from None
        return given

    def _check(self) -> None:
        """A folder with other things in it was meant for something else."""
        if self.path.exists() and not self.path.is_dir():
            raise ForeignState(f"{self.path} is a file, not the folder of a pipeline")
        if not self.path.is_dir() or (self.path / _DATABASE).exists():
            return
        if others := sorted({item.name for item in self.path.iterdir()} - {LOCK, _BLOBS, _CLAIM, _CACHE}):
            raise ForeignState(f"{self.path} holds no pipeline but {others[0]}; choose an empty folder")
