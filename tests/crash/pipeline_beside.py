"""A runtime whose merges run beside the steps, as on Spark, and yet always at the same places."""

import threading
from collections.abc import Sequence

from tidemill.pipeline.runtimes.inline import InlineRuntime
from tidemill.pipeline.state.files import RunFiles
from tidemill.pipeline.state.merges import Merged, MergeUnit
from tidemill.pipeline.task import Report, StepTask


class BesideRuntime(InlineRuntime):
    """One unit of a merge runs beside each step; between two steps the merge waits."""

    background = True

    def __init__(self, files: RunFiles, workers: int) -> None:
        super().__init__(files, workers)
        self._waits = threading.Event()
        self._next_unit = threading.Semaphore(0)

    def run(self, task: StepTask, deadline_s: float) -> tuple[Report, ...]:
        beside = self._merge_waits()
        if beside:
            self.let_one_unit_go()
        reports = super().run(task, deadline_s)
        if beside:
            self._merge_waits()
        return reports

    def merge(self, units: Sequence[MergeUnit]) -> tuple[Merged, ...]:
        self._waits.set()
        self._next_unit.acquire()
        return super().merge(units)

    def let_one_unit_go(self) -> None:
        self._waits.clear()
        self._next_unit.release()

    def _merge_waits(self) -> bool:
        """Whether there is a merge that waits for the next step; returns when it does or has ended."""
        found = [thread for thread in threading.enumerate() if thread.name == "tidemill-merge"]
        return any(self._waits_or_ends(thread) for thread in found)

    def _waits_or_ends(self, merge: threading.Thread) -> bool:
        while merge.is_alive():
            if self._waits.wait(0.01):
                return True
        return False
