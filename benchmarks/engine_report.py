"""The figures of `engine.py` as Markdown, and the bars that they are held to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Figures = Mapping[str, Any]
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Bar:
    """A promise about a figure. `value` raises KeyError when its parts were not run."""

    name: str
    value: Callable[[Figures], float]
    limit: float
    at_least: bool
    unit: str = "times"

    def line(self, figures: Figures) -> tuple[str, ...] | None:
        try:
            value = self.value(figures)
        except KeyError:
            return None
        passed = value >= self.limit if self.at_least else value <= self.limit
        sign = "≥" if self.at_least else "≤"
        measured = f"{value:.2f} {self.unit}", f"{sign} {self.limit:g} {self.unit}"
        return self.name, *measured, "pass" if passed else "**fail**"


def _step(figures: Figures, mark: str, what: str) -> float:
    return float(figures[f"steps_{mark}"]["by_rows"][1_000][what]["median"])


BARS = (
    Bar(
        "a change of 1,000 rows (append and step) is so much faster than Spark's full recompute",
        lambda f: f["spark"]["seconds"] * 1e3 / _step(f, "full", "both"),
        20,
        at_least=True,
    ),
    Bar(
        "a step of 1,000 rows with all bids, to one with a tenth",
        lambda f: _step(f, "full", "step") / _step(f, "small", "step"),
        1.3,
        at_least=False,
    ),
    Bar(
        "bulk load to Structured Streaming",
        lambda f: f["load"]["all"]["rows_per_s"] / f["streaming"]["rows_per_s"],
        15,
        at_least=True,
    ),
    Bar(
        "bulk load of bids to Spark's repartition and write of them",
        lambda f: f["load"]["bids"]["rows_per_s"] * f["write"]["seconds"] / f["write"]["rows"],
        0.5,
        at_least=True,
    ),
    Bar(
        "p99 to median over 500 steps of 1,000 rows",
        lambda f: f["tail"]["step"]["p99"] / f["tail"]["step"]["median"],
        5,
        at_least=False,
    ),
    Bar(
        "anonymous memory of all Python processes after the load",
        lambda f: f["memory"]["now"] / GIB,
        1.5,
        at_least=False,
        unit="GiB",
    ),
)


def report(figures: Figures) -> str:
    """All that was measured, table by table."""
    parts = (_bars, _load, _steps, _others, _machine)
    return "\n\n".join(text for part in parts for text in part(figures))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column to the left, the others to the right."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _bars(figures: Figures) -> Iterator[str]:
    lines = [line for bar in BARS if (line := bar.line(figures))]
    if lines:
        yield table(("bar", "measured", "wanted", ""), lines)


def _load(figures: Figures) -> Iterator[str]:
    if "load" not in figures:
        return
    names = ("stage_rows_per_s", "step_rows_per_s", "rows_per_s")
    lines = [
        (what, f"{load['rows']:,}", *(f"{load[name]:,.0f}" for name in names))
        for what, load in figures["load"].items()
    ]
    yield table(("load", "rows", "staging rows/s", "steps and commit rows/s", "together rows/s"), lines)
    memory = figures["memory"]
    sizes = [f"{memory[moment] / GIB:.2f} GiB" for moment in ("now", "peak")]
    yield (
        f"Anonymous memory of the {memory['processes']} Python processes: {sizes[0]} after the load, "
        f"{sizes[1]} at most."
    )


def _steps(figures: Figures) -> Iterator[str]:
    lines = []
    for mark in ("small", "full"):
        found = figures.get(f"steps_{mark}", {"by_rows": {}})
        for rows, spreads in found["by_rows"].items():
            lines.append((f"{rows:,} rows, {found['bids']:,} bids", *_milliseconds(spreads)))
    if "tail" in figures:
        lines.append(("1,000 rows, 500 steps", *_milliseconds(figures["tail"])))
    if lines:
        head = ("change", "append ms", "step ms", "both: median", "p90", "p99", "max")
        yield table(head, lines)


def _milliseconds(spreads: Figures) -> Iterator[str]:
    for what in ("append", "step"):
        yield f"{spreads[what]['median']:.0f}"
    for name in ("median", "p90", "p99", "max"):
        yield f"{spreads['both'][name]:.0f}"


def _others(figures: Figures) -> Iterator[str]:
    lines = []
    if found := figures.get("spark"):
        each = " ".join(f"{value:.2f}" for value in (*found["default"], *found["two_partitions"]))
        lines.append(("Spark, full recompute from Parquet", f"{found['seconds']:.2f} s", each))
    if found := figures.get("duckdb"):
        each = " ".join(f"{value:.2f}" for value in found["every"])
        lines.append(("DuckDB, full recompute from Parquet", f"{found['seconds']:.2f} s", each))
    if found := figures.get("streaming"):
        rate = f"{found['rows_per_s']:,.0f} rows/s"
        lines.append(("Structured Streaming, load", rate, f"{found['rows']:,} rows"))
        steps = sorted(found["steps"])
        each = " ".join(f"{value:.2f}" for value in steps)
        lines.append(("Structured Streaming, 1,000 more bids", f"{steps[len(steps) // 2]:.2f} s", each))
    if found := figures.get("write"):
        each = " ".join(f"{value:.2f}" for value in found["every"])
        rate = f"{found['rows'] / found['seconds']:,.0f} rows/s"
        lines.append(("Spark, bids by key to Parquet", rate, f"{each} s for {found['rows']:,} rows"))
    if lines:
        yield table(("others, best or median", "", "each turn"), lines)


def _machine(figures: Figures) -> Iterator[str]:
    """Others at work on the machine make the figures worthless; alone, the load is about two."""
    busy = ", ".join(f"{value:.1f}" for value in figures["busy"])
    yield (
        f"Scale {figures['scale']:g} on {figures['cores']} cores; load average over five minutes before the "
        f"run, after the engine and after the others: {busy}."
    )
