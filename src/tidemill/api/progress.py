"""A line on the terminal while something takes long: how many of Spark's tasks are done."""

import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

from pyspark.sql import SparkSession

_PATIENCE_S = 1.5
_EVERY_S = 0.25
_WIDTH = 24

Tasks = Callable[[], tuple[int, int]]
"""How many tasks are done, of how many."""


class Progress:
    """Shows a bar on standard error from the moment that the work has taken a while, and clears it after.

    On anything but a terminal it shows nothing.
    """

    def __init__(self, what: str, tasks: Tasks, out: TextIO | None = None) -> None:
        self._what = what
        self._tasks = tasks
        self._out = sys.stderr if out is None else out
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tidemill-progress", daemon=True)

    def __enter__(self) -> Self:
        if self._out.isatty():
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        if self._ended.wait(_PATIENCE_S):
            return
        seconds = _PATIENCE_S
        while not self._ended.wait(_EVERY_S):
            seconds += _EVERY_S
            self._show(line(self._what, *self._tasks(), seconds))
        self._show("")

    def _show(self, text: str) -> None:
        self._out.write(f"\r\x1b[2K{text}")
        self._out.flush()


def line(what: str, done: int, total: int, seconds: float) -> str:
    """The bar at one moment."""
    filled = _WIDTH * done // total if total else 0
    return f"{what} [{'#' * filled}{'.' * (_WIDTH - filled)}] {done}/{total} tasks, {seconds:.0f} s"


def tasks_of(spark: SparkSession) -> Tasks:
    """The tasks of all stages that run now."""
    tracker = spark.sparkContext.statusTracker()

    def count() -> tuple[int, int]:
        found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        stages = [stage for stage in found if stage is not None]
        return sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)

    return count
