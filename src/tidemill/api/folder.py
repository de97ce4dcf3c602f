"""The folder of a pipeline that is used as a library: its lock, its documents, its files.

owner.lock      held by the process that has it open
tidemill.db     SQLite: the log head and the root
blobs/          segments, runs, manifests, plans
"""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from tidemill.base.bridge import LoopThread
from tidemill.pipeline.engine import Place
from tidemill.pipeline.errors import ForeignState
from tidemill.pipeline.log.folder import LOCK, FolderLock
from tidemill.store import open_store
from tidemill.store.blobs import open_blobs

T = TypeVar("T")

_DATABASE = "tidemill.db"
_KEY = "pipeline"


class PipelineFolder:
    """An open folder. Raises `AlreadyOpen` when another process has it, `ForeignState` for other content."""

    def __init__(self, path: Path) -> None:
        if "://" in str(path) or ":/" in str(path):
            raise ForeignState(f"{path}: a pipeline's folder is a path of this machine")
        self.path = path.expanduser().absolute()
        self._check()
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = FolderLock(self.path)
        self._loop = LoopThread("tidemill-pipeline").start()
        try:
            blobs = open_blobs((self.path / "blobs").as_uri(), create=True)
            store = open_store(f"sqlite:///{self.path / _DATABASE}")
            self._store = store
            self._run(store.open())
        except BaseException:
            self._loop.stop()
            self._lock.release()
            raise
        self.place = Place(store, blobs, _KEY, self._run)

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

    def _check(self) -> None:
        """A folder with other things in it was meant for something else."""
        if self.path.exists() and not self.path.is_dir():
            raise ForeignState(f"{self.path} is a file, not the folder of a pipeline")
        if not self.path.is_dir() or (self.path / _DATABASE).exists():
            return
        if others := sorted({item.name for item in self.path.iterdir()} - {LOCK, "blobs"}):
            raise ForeignState(f"{self.path} holds no pipeline but {others[0]}; choose an empty folder")
