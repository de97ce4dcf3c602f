"""What the last step left: several views as they were after it, and how long it took for each."""

from abc import ABC, abstractmethod

from tidemill.api.rows import Rows
from tidemill.pipeline.engine import Engine
from tidemill.pipeline.live import LiveRuns


class LastStep(ABC):
    """What has views that are read as of a step."""

    @property
    @abstractmethod
    def views(self) -> tuple[str, ...]: ...

    @abstractmethod
    def _engine_open(self) -> Engine: ...

    @abstractmethod
    def _read(self, name: str, runs: LiveRuns) -> Rows: ...

    def read(self, *names: str) -> dict[str, Rows]:
        """Views and tables as of one and the same step, also while the pipeline runs; by default all views.

        Raises `NoSuchName`.
        """
        runs = self._engine_open().runs
        return {name: self._read(name, runs) for name in names or self.views}

    def timings(self) -> dict[str, float]:
        """For each view, in how many seconds the last step would have been done without the other views.

        That is its time without what it measured of the operators that only they need. What views share, and
        what belongs to none, such as starting Spark's job, counts in full for each. Empty as long as no step
        was done since the pipeline was opened.
        """
        return self._engine_open().timing.by_view()
