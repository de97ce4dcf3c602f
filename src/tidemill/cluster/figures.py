"""What a node counts about itself, over the last minute, and what is alarming about it. Pure.

Counts only grow, so that two of them tell what happened in between. Alarms are judged by that, and not by
totals since the start: one bad minute a week ago is no alarm.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import astuple

WINDOW_S = 60.0

SLOW_ANSWER_S = 0.25
"""A renewal that takes longer, on average, leaves too few tries within a lease of a few seconds."""

LARGE_SKEW_S = 1.0

OLD_SHARE = 0.5
"""The share of a lease after which one that was not renewed is old: two renewals did not come about."""


class Counts(Struct, frozen=True):
    """Totals. Of the heart: renewals that were answered, that were not, that began late, and how long answers
    took in all; of all calls to the store: what its `Statistics` have."""

    renewals: int = 0
    missed: int = 0
    late: int = 0
    answers_s: float = 0.0
    calls: int = 0
    conflicts: int = 0
    unknown: int = 0
    settled: int = 0
    unavailable: int = 0

    def __sub__(self, before: "Counts") -> "Counts":
        pairs = zip(astuple(self), astuple(before), strict=True)
        return Counts(*(now - then for now, then in pairs))


class Figures(Struct, frozen=True):
    """A node's figures at the store's moment `at`, in milliseconds.

    `age_s` is how long ago the last answered renewal was sent; `skew_s` the store's clock less the node's,
    right to within `skew_error_s`; `recent` what was counted in the last `window_s`.
    """

    at: int
    ttl_s: float
    age_s: float
    skew_s: float
    skew_error_s: float
    window_s: float
    total: Counts
    recent: Counts

    @property
    def answer_s(self) -> float:
        """How long the store took to answer a renewal, on average of late."""
        return self.recent.answers_s / self.recent.renewals if self.recent.renewals else 0.0


class Window:
    """What was counted in the last minute, or since the first sample if that is less."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, Counts]] = deque()

    def add(self, now: float, counts: Counts) -> None:
        """Note the counts at `now`, every few seconds; keeps just those of the last minute."""
        self._samples.append((now, counts))
        while now - self._samples[0][0] > WINDOW_S:
            self._samples.popleft()

    def since(self, now: float, counts: Counts) -> tuple[float, Counts]:
        """How many seconds ago the window began, and what was counted in it, given the counts at `now`."""
        began, before = self._samples[0] if self._samples else (now, counts)
        return now - began, counts - before


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that a person should look at, and what can be done about it. Programs match on `code`."""

    code: str
    message: str
    fix: str


def _old(figures: Figures) -> str | None:
    if figures.age_s <= OLD_SHARE * figures.ttl_s or math.isinf(figures.age_s):
        return None  # in time, or not had yet
    return f"its lease of {figures.ttl_s:g} s was last renewed {figures.age_s:.1f} s ago"


def _late(figures: Figures) -> str | None:
    return _counted(figures, figures.recent.late, "renewals began late, as the process did not get to run")


def _missed(figures: Figures) -> str | None:
    return _counted(figures, figures.recent.missed, "renewals were not answered by the store in time")


def _slow(figures: Figures) -> str | None:
    if figures.answer_s <= SLOW_ANSWER_S:
        return None
    return f"the store is slow: it takes {figures.answer_s:.2f} s to answer a renewal"


def _unknown(figures: Figures) -> str | None:
    return _counted(figures, figures.recent.unknown, "writes have a fate that could not be told")


def _skewed(figures: Figures) -> str | None:
    if abs(figures.skew_s) - figures.skew_error_s <= LARGE_SKEW_S:
        return None
    direction = "behind" if figures.skew_s > 0 else "ahead of"
    return f"its clock is {abs(figures.skew_s):.1f} s {direction} the store's"


def _counted(figures: Figures, count: int, what: str) -> str | None:
    return f"{count} {what}, in the last {figures.window_s:.0f} s" if count else None


Rule: TypeAlias = tuple[str, Callable[[Figures], str | None], str]

RULES: tuple[Rule, ...] = (
    ("lease.old", _old, "see whether the node is overloaded or stopped, and whether it reaches the store"),
    ("lease.late", _late, "give the machine more CPU, or the node fewer slots; look for suspended machines"),
    ("lease.missed", _missed, "look at the database's log, and at the network between node and database"),
    ("store.slow", _slow, "give the database a faster disk, or bring it nearer; `tidemill doctor` times it"),
    ("store.unknown", _unknown, "look at the network to the database, where connections break half way"),
    ("clock.skew", _skewed, "let both machines set their clocks by NTP; leases do not suffer, logs mislead"),
)
SILENT = "node.silent"
STUCK = "node.stuck"
LEADERLESS = "cluster.leaderless"


def alarms(figures: Figures) -> list[Alarm]:
    """What is alarming about a node's figures, in plain words."""
    found = ((code, judge(figures), fix) for code, judge, fix in RULES)
    return [Alarm(code, message, fix) for code, message, fix in found if message is not None]


def silence(silent_s: float) -> Alarm:
    """Of a node that did not leave in order, and whose lease has run out."""
    fix = "start it again, or see why it does not reach the store; the leader will remove it from the list"
    return Alarm(SILENT, f"it has not been heard of for {silent_s:.0f} s", fix)


def stuck(unreported_s: float) -> Alarm:
    """Of a node whose lease is renewed by its heart, while nothing else of it seems to run."""
    fix = "see what keeps its event loop busy; if nothing helps, start it again"
    return Alarm(STUCK, f"it renews its lease, but has not reported for {unreported_s:.0f} s", fix)


def leaderless() -> Alarm:
    fix = "a lease later one should; if none does, see what their logs say"
    return Alarm(LEADERLESS, "nodes are alive, but nobody leads", fix)
