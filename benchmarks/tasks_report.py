"""The table of `tasks.py` and its bars, in Markdown."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from task_peers.catalogue import BROKERS, DURABILITY, System

LEASE_S = 5.0
FIGURES = {
    "throughput": ("single", "bulk", "drain"),
    "latency": ("p50", "p99", "idle"),
    "kill": ("lost", "doubled", "rerun"),
}
"""What each trial measures."""
HEAD = (
    "system",
    "store and durability",
    "N",
    "enqueue/s, one by one",
    "enqueue/s, bulk",
    "drain/s",
    "p50 ms",
    "p99 ms",
    "idle CPU %",
    "kill -9: lost",
    "done twice",
    "run again after, s",
)


@dataclass
class Row:
    """What was measured of a system: each figure in every round, and what went wrong."""

    system: System
    n: int
    figures: dict[str, list[float | None]] = field(default_factory=dict)
    failures: list[tuple[str, str]] = field(default_factory=list)
    """The name of the trial, and why it failed."""

    def add(self, figures: dict[str, float | None]) -> None:
        for name, figure in figures.items():
            self.figures.setdefault(name, []).append(figure)

    def best(self, name: str) -> float | None:
        """The highest of the rounds. None when there is none."""
        return max((figure for figure in self.figures.get(name, []) if figure is not None), default=None)

    def as_json(self) -> dict[str, Any]:
        system = self.system
        return {
            "system": system.key,
            "store": DURABILITY[system.place],
            "results": system.results,
            "bulk": system.bulk,
            "safety": system.safety,
            "n": self.n,
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


def table(rows: Iterable[Row], raw: dict[str, list[float]]) -> str:
    lines = [_line(HEAD), _line(["---"] * 2 + ["--:"] * (len(HEAD) - 2))]
    lines += [_line(_cells(row)) for row in rows]
    lines += [
        _line(["raw loop", name, "", "", "", _count(max(rates)), *[""] * 6]) for name, rates in raw.items()
    ]
    return "\n".join(lines)


def notes(rows: Iterable[Row]) -> str:
    """What each system does for results, bulk and safety; once for each, whatever the store."""
    lines = [_line(["system", "results", "bulk", "settings at the kill"]), _line(["---"] * 4)]
    seen: dict[str, str] = {}
    for row in rows:
        system = row.system
        key = system.key.removesuffix("-aof")
        seen.setdefault(key, _line([f"`{key}`", system.results, system.bulk, system.safety]))
    return "\n".join([*lines, *seen.values()])


def failures(rows: Iterable[Row]) -> str:
    return "\n".join(f"- {row.system.key}, {trial}: {why}" for row in rows for trial, why in row.failures)


def bars(rows: Iterable[Row]) -> str:
    lines = [_line(["bar", "measured", "wanted", ""]), _line(["---", "--:", "--:", "---"])]
    lines += [
        _line([bar.text, bar.measured, bar.wanted, "met" if bar.met else "**missed**"])
        for bar in _bars(list(rows))
    ]
    return "\n".join(lines)


def _bars(rows: list[Row]) -> Iterator[Bar]:
    ours = [row for row in rows if row.system.ours]
    peers = [row for row in rows if not row.system.ours]
    on_postgres = [row for row in ours if row.system.place == "postgres"]
    in_database = [row for row in peers if row.system.place not in BROKERS]
    by_broker = [row for row in peers if row.system.place in BROKERS]
    peers_on_postgres = [row for row in in_database if row.system.place == "postgres"]
    yield from _ratio("drain on PostgreSQL", "drain", on_postgres, in_database, "in a database", 2.0)
    yield from _ratio("drain on PostgreSQL", "drain", on_postgres, by_broker, "with a broker", 1.0)
    yield from _ratio("bulk enqueue on PostgreSQL", "bulk", on_postgres, peers_on_postgres, "on it", 1.0)
    for row in ours:
        yield from _own(row)


def _ratio(
    text: str, figure: str, ours: list[Row], peers: list[Row], which: str, wanted: float
) -> Iterator[Bar]:
    mine, theirs = _leader(figure, ours), _leader(figure, peers)
    if mine is not None and theirs is not None:
        ratio = (mine.best(figure) or 0.0) / (theirs.best(figure) or 1.0)
        against = f"{text} ({mine.system.key}), to the best peer {which} ({theirs.system.key})"
        yield Bar(against, f"{ratio:.2f} times", f"{wanted:.0f}", ratio >= wanted)


def _leader(figure: str, rows: list[Row]) -> Row | None:
    """Who is best at it."""
    measured = [row for row in rows if row.best(figure) is not None]
    return max(measured, key=lambda row: row.best(figure) or 0.0, default=None)


def _own(row: Row) -> Iterator[Bar]:
    """The bars that need no peer."""
    key, bulk, p50, idle = row.system.key, row.best("bulk"), row.best("p50"), row.best("idle")
    if bulk is not None and row.system.place == "sqlite":
        yield Bar(f"bulk enqueue, {key}", f"{bulk:,.0f}/s", "20,000/s", bulk >= 20_000)
    if p50 is not None:
        yield Bar(f"submit to result, p50, {key}", f"{p50:.1f} ms", "at most 5 ms", p50 <= 5)
    if idle is not None:
        nodes = len(row.system.attentive)
        yield Bar(f"idle CPU of a node, {key}", f"{idle / nodes:.2f} %", "under 1 %", idle / nodes < 1)
    if "lost" in row.figures:
        lost, rerun = row.best("lost"), row.best("rerun")
        yield Bar(f"tasks lost at kill -9, {key}", f"{lost:.0f}", "0", lost == 0)
        again = "never" if rerun is None else f"{rerun:.1f} s"
        bound = LEASE_S + 2
        met = rerun is not None and rerun <= bound
        yield Bar(f"killed task runs again, {key}", again, f"within {bound:.0f} s", met)


def _cells(row: Row) -> list[str]:
    return [
        f"{row.system.title} (`{row.system.key}`)",
        DURABILITY[row.system.place],
        f"{row.n:,}",
        _shown(row, "single", _count),
        _shown(row, "bulk", _count),
        _shown(row, "drain", _count),
        _shown(row, "p50", "{:.1f}".format),
        _shown(row, "p99", "{:.1f}".format),
        _shown(row, "idle", "{:.2f}".format),
        _shown(row, "lost", "{:.0f}".format),
        _shown(row, "doubled", "{:.0f}".format),
        _shown(row, "rerun", "{:.1f}".format, "not in time"),
    ]


def _shown(row: Row, name: str, form: Callable[[float], str], nothing: str = "none") -> str:
    """A figure; empty when nobody tried to measure it."""
    figure = row.best(name)
    if figure is not None:
        return form(figure)
    if name in row.figures:
        return nothing
    return "failed" if any(name in FIGURES[trial] for trial, _ in row.failures) else ""


def _count(figure: float) -> str:
    return f"{figure:,.0f}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
