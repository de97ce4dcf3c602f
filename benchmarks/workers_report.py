"""The tables of `workers.py` and its bars, in Markdown."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

TITLES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "": ""}


@dataclass
class Row:
    """What was measured in a trial on a store: each figure in every round, and what went wrong."""

    trial: str
    place: str
    title: str
    figures: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, figures: dict[str, float]) -> None:
        for name, figure in figures.items():
            self.figures.setdefault(name, []).append(figure)

    def best(self, name: str) -> float | None:
        """The highest of the rounds. None when there is none."""
        return max(self.figures.get(name, []), default=None)

    def as_json(self) -> dict[str, Any]:
        return {
            "trial": self.trial,
            "store": self.place,
            "title": self.title,
            "figures": self.figures,
            "failures": self.failures,
        }


@dataclass(frozen=True)
class Bar:
    """Something wanted: a figure, what it is to be, and whether it is."""

    text: str
    measured: str
    wanted: str
    met: bool


@dataclass(frozen=True)
class Found:
    """All rows, by trial and store."""

    rows: Sequence[Row]

    def row(self, trial: str, place: str) -> Row | None:
        return next((row for row in self.rows if (row.trial, row.place) == (trial, place)), None)

    def best(self, trial: str, place: str, name: str) -> float | None:
        row = self.row(trial, place)
        return None if row is None else row.best(name)

    def kind(self, kind: str) -> list[Row]:
        return [row for row in self.rows if row.trial.split("-")[0] == kind and row.figures]


def report(rows: Sequence[Row]) -> str:
    found = Found(rows)
    parts = [_rates(found), _bounds(found), _large(found), _idle(found), _bars(found), _failures(found)]
    return "\n\n".join(part for part in parts if part)


def _rates(found: Found) -> str:
    head = ["workers", "store", "submit/s", "drain/s", "node's CPU %", "submit and drain/s"]
    head += ["to a raw loop", "to 8 raw loops", "drain to raw", "to 8 raw", "drain to echo"]
    return _table(head, 2, (_rate_cells(found, row) for row in found.kind("rate")))


def _rate_cells(found: Found, row: Row) -> list[str]:
    both, drain = row.best("both"), row.best("drain")
    raw = [found.best(f"raw-{loops}", row.place, "rate") for loops in (1, 8)]
    echo = found.best(f"echo-{row.trial.rsplit('-', 1)[-1]}", "", "rate")
    return [
        row.title,
        TITLES[row.place],
        _shown(row.best("submit"), _count),
        _shown(drain, _count),
        _shown(row.best("cpu"), _count),
        _shown(both, _count),
        *(_shown(_ratio(both, one), _two) for one in raw),
        *(_shown(_ratio(drain, one), _two) for one in raw),
        _shown(_ratio(drain, echo), _two),
    ]


def _bounds(found: Found) -> str:
    rows = [*found.kind("raw"), *found.kind("echo")]
    cells = ([row.title, TITLES[row.place], _shown(row.best("rate"), _count)] for row in rows)
    return _table(["beside", "store", "a second"], 2, cells)


def _large(found: Found) -> str:
    head = ["64 MiB payloads", "store", "send MiB/s", "to the worker and back", "fetch", "all together"]
    head.append("memory growth MiB")
    names = ("send", "work", "fetch", "whole")
    cells = (
        [
            row.title,
            TITLES[row.place],
            *(_shown(row.best(name), _count) for name in names),
            _shown(row.best("growth"), _count),
        ]
        for row in found.kind("large")
    )
    return _table(head, 2, cells)


def _idle(found: Found) -> str:
    head = ["idle workers", "store", "connected/s", "memory before MiB", "memory MiB", "CPU %"]
    cells = (
        [
            _shown(row.best("workers"), _count),
            TITLES[row.place],
            _shown(row.best("connects"), _count),
            _shown(row.best("before"), _count),
            _shown(row.best("memory"), _count),
            _shown(row.best("cpu"), _two),
        ]
        for row in found.kind("idle")
    )
    return _table(head, 2, cells)


def _bars(found: Found) -> str:
    cells = (
        [bar.text, bar.measured, bar.wanted, "met" if bar.met else "**missed**"] for bar in _all_bars(found)
    )
    return _table(["bar", "measured", "wanted", ""], 1, cells)


def _all_bars(found: Found) -> Iterator[Bar]:
    for row in found.kind("rate"):
        if row.trial == "rate-plain-8":
            for loops, against in ((1, "a raw loop"), (8, "8 raw loops at once")):
                yield from _against(row, found.row(f"raw-{loops}", row.place), against)
    for row in found.kind("idle"):
        memory, workers = row.best("memory") or 0.0, row.best("workers") or 0.0
        text = f"memory with {workers:,.0f} idle workers, {TITLES[row.place]}"
        yield Bar(text, f"{memory:,.0f} MiB", "under 400 MiB", memory < 400)
    for row in found.kind("large"):
        growth = row.best("growth") or 0.0
        text = f"memory growth, 64 MiB payloads, {row.title}, {TITLES[row.place]}"
        yield Bar(text, f"{growth:,.0f} MiB", "under 100 MiB", growth < 100)


def _against(row: Row, raw: Row | None, against: str) -> Iterator[Bar]:
    """The bar is on the best of the rounds; each round's own ratio shows how noisy the machine was."""
    ratio = None if raw is None else _ratio(row.best("both"), raw.best("rate"))
    if raw is None or ratio is None:
        return
    rounds = zip(row.figures["both"], raw.figures["rate"], strict=False)
    each = " ".join(f"{one / other:.2f}" for one, other in rounds)
    text = f"submit and drain with 8 plain workers to {against}, {TITLES[row.place]}"
    yield Bar(text, f"{ratio:.2f} (rounds: {each})", "at least 0.5", ratio >= 0.5)


def _failures(found: Found) -> str:
    lines = [f"- {row.title}, {TITLES[row.place]}: {why}" for row in found.rows for why in row.failures]
    return "\n".join(["Failed:", "", *lines]) if lines else ""


def _table(head: Sequence[str], texts: int, rows: Iterable[Sequence[str]]) -> str:
    """A table of which the first columns are text; empty without rows."""
    lines = [_line(row) for row in rows]
    rule = ["---" if at < texts or not name else "--:" for at, name in enumerate(head)]
    return "\n".join([_line(head), _line(rule), *lines]) if lines else ""


def _ratio(one: float | None, other: float | None) -> float | None:
    return None if one is None or not other else one / other


def _shown(figure: float | None, form: Callable[[float], str]) -> str:
    return "" if figure is None else form(figure)


def _count(figure: float) -> str:
    return f"{figure:,.0f}"


def _two(figure: float) -> str:
    return f"{figure:.2f}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
