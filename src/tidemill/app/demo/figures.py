"""What the driver tells of its pipeline, as lines of JSON."""

from statistics import median
from typing import Any, Literal

import msgspec

Phase = Literal["starting", "planning", "loading", "running", "finished", "failed"]


class ViewFigures(msgspec.Struct, frozen=True):
    """A view: how many rows it has, `some` of them as text, and how it compares with Spark.

    `step_ms` is what a step takes for it, the median of the last: the step without the operators that only
    other views need. `recompute_ms` is what Spark took to compute it from scratch when that was last tried,
    `checked` how often it was, and `wrong` how often its answer was another than ours.
    """

    name: str
    columns: tuple[str, ...] = ()
    some: tuple[tuple[str, ...], ...] = ()
    rows: int = 0
    step_ms: float | None = None
    recompute_ms: float | None = None
    checked: int = 0
    wrong: int = 0

    @property
    def ratio(self) -> float | None:
        """How many steps fit into the time of a recompute."""
        return _ratio(self.recompute_ms, self.step_ms)


class Figures(msgspec.Struct, frozen=True):
    """The pipeline at one moment. A step brings all views up to date: its time is that of all of them."""

    phase: Phase
    said: str = ""
    """Of what failed: why."""
    code: str = ""
    """Of an error that Tidemill can name."""
    steps: int = 0
    rows_in: int = 0
    """Rows that came, changed or went since the history was loaded."""
    rows_per_s: float = 0.0
    step_ms: tuple[float, ...] = ()
    """Of the last steps, the newest last."""
    tables: dict[str, int] = {}
    views: tuple[ViewFigures, ...] = ()

    @property
    def checked(self) -> int:
        return sum(view.checked for view in self.views)

    @property
    def wrong(self) -> int:
        return sum(view.wrong for view in self.views)

    @property
    def last_ms(self) -> float | None:
        return self.step_ms[-1] if self.step_ms else None

    @property
    def median_ms(self) -> float | None:
        return median(self.step_ms) if self.step_ms else None

    @property
    def ratio(self) -> float | None:
        """How many whole steps fit into the time of a recompute of all views."""
        return _ratio(self.recompute_ms, self.median_ms)

    @property
    def recompute_ms(self) -> float | None:
        """What Spark takes to compute all views from scratch, once each has been tried."""
        times = [view.recompute_ms for view in self.views]
        return sum(filter(None, times)) if times and None not in times else None

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            **({"error": self.said} if self.phase == "failed" else {}),
            "steps": self.steps,
            "rows_in": self.rows_in,
            "rows_per_second": _rounded(self.rows_per_s),
            "tables": self.tables,
            "step_ms": {"last": _rounded(self.last_ms), "median": _rounded(self.median_ms)},
            "recompute_ms": _rounded(self.recompute_ms),
            "ratio": _rounded(self.ratio),
            "views": {
                view.name: {
                    "rows": view.rows,
                    "step_ms": _rounded(view.step_ms),
                    "recompute_ms": _rounded(view.recompute_ms),
                    "ratio": _rounded(view.ratio),
                    "checked": view.checked,
                    "wrong": view.wrong,
                }
                for view in self.views
            },
            "checked": self.checked,
            "wrong": self.wrong,
        }


def _ratio(recompute_ms: float | None, step_ms: float | None) -> float | None:
    return None if recompute_ms is None or not step_ms else recompute_ms / step_ms


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
