"""Merges beside the steps: planned from the runs there are, run in a thread, adopted between two steps."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from tidemill.base.log import get_logger
from tidemill.pipeline.errors import PipelineError
from tidemill.pipeline.live import LiveRuns
from tidemill.pipeline.runtimes.runtime import Runtime
from tidemill.pipeline.state.forget import Forget
from tidemill.pipeline.state.merges import LARGE_ROWS, Merge, Merged, overdue, plan_merges
from tidemill.pipeline.state.spec import RunRef
from tidemill.store.blobs import BlobError, Blobs

log = get_logger("tidemill.pipeline.merging")

_CALM_STEPS = 4


@dataclass(frozen=True, slots=True)
class Result:
    """What a merge came to: `added` takes the place of its inputs."""

    merge: Merge
    added: tuple[RunRef, ...]


class Merging:
    """Keeps runs few. A merge that fails leaves nothing behind, and is planned again later.

    On a runtime without background, merges are done at once.
    """

    def __init__(self, runtime: Runtime, blobs: Blobs, folder: str) -> None:
        self._runtime = runtime
        self._blobs = blobs
        self._folder = folder
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._done: list[Result] = []
        self._unadopted: set[str] = set()
        self._large: frozenset[str] = frozenset()
        self._calm_for = 0
        self._stopped = threading.Event()

    def begin(self, runs: LiveRuns, term: int, step: int, forget: Mapping[str, Forget]) -> None:
        """Start the merges that are due, unless some are under way.

        They leave out what nobody will look up again, as `forget` says by the fingerprint of the operator.
        """
        calm = self._is_calm(runs)
        if self._thread is not None and self._thread.is_alive():
            return
        due = plan_merges(runs.all(), calm=calm)
        merges = [replace(merge, forget=forget.get(merge.owner)) for merge in due]
        if not merges:
            return
        if not self._runtime.background:
            self._work(merges, term, step)
            return
        self._thread = threading.Thread(
            target=self._work, args=(merges, term, step), name="tidemill-merge", daemon=True
        )
        self._thread.start()

    def _is_calm(self, runs: LiveRuns) -> bool:
        """Whether several steps have brought no large run."""
        large = frozenset(run.name for run in runs.all() if run.rows > LARGE_ROWS)
        self._calm_for = 0 if large - self._large else self._calm_for + 1
        self._large = large
        return self._calm_for >= _CALM_STEPS

    def adopt(self, runs: LiveRuns) -> LiveRuns:
        """The runs with all merges that are done; waits for one when too many runs have piled up.

        A merge whose inputs are not all there any more is passed over: its files are swept.
        """
        if overdue(runs.all()):
            self.wait()
        with self._lock:
            done, self._done = self._done, []
            self._unadopted.difference_update(run.name for result in done for run in result.added)
        for result in done:
            if runs.has(result.merge.names):
                runs = runs.with_merge(result.merge.names, result.added)
        return runs

    def names(self) -> frozenset[str]:
        """The files of merges that are under way or not adopted yet: a sweep must spare them, however old."""
        with self._lock:
            return frozenset(self._unadopted)

    def wait(self) -> None:
        """Wait until what is under way has ended."""
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """Break off after the unit that is being merged. Safe to repeat."""
        self._stopped.set()
        self.wait()

    def _work(self, merges: Sequence[Merge], term: int, step: int) -> None:
        for merge in merges:
            merged: list[Merged] = []
            try:
                # One unit at a time, so that the tasks of a step never wait for more than one.
                for unit in merge.units(self._folder, term, step):
                    if self._stopped.is_set():
                        return
                    merged += self._runtime.merge([unit])
                    with self._lock:
                        self._unadopted.update(run.name for run in merge.result(merged))
            except (PipelineError, BlobError) as error:
                log.warning("merge.failed", runs=len(merge.inputs), error=str(error))
                self._drop(merge.result(merged))
                return
            with self._lock:
                self._done.append(Result(merge, merge.result(merged)))

    def _drop(self, runs: Sequence[RunRef]) -> None:
        """Forget what units of a failed merge gave. Now, since a full disk may be why it failed."""
        with self._lock:
            self._unadopted.difference_update(run.name for run in runs)
        with suppress(BlobError):  # a sweep finds the rest
            for run in runs:
                self._blobs.delete(run.name)
