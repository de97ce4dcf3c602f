"""Merges beside the steps: planned from the runs there are, run in a thread, adopted between two steps."""

from tidemill.pipeline.live import LiveRuns
from tidemill.pipeline.runtimes.runtime import Runtime


class Merging:
    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def begin(self, runs: LiveRuns, term: int, step: int) -> None: ...

    def results(self, runs: LiveRuns) -> tuple[()]:
        return ()

    def stop(self) -> None: ...
