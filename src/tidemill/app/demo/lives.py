"""Rows that come, change and go: a table is a sequence of numbered rows, of which each has its life.

A row is a function of its number and version, and which ones are there a function of how many have come. So
any amount of rows can be made anew, and to delete one nobody has to remember it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

import numpy as np
import pyarrow as pa

from tidemill.app.demo.chance import Numbers, one_in

WEIGHT = "_weight"
CHANGED_ONE_IN = 6
WITHDRAWN_ONE_IN = 15
_NOT_THERE = -1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Life:
    """After how many more rows of its table a row changes, is withdrawn, or goes because it is old.

    The `pillars`, the first rows, do not grow old.
    """

    changed_after: int = 2_000
    withdrawn_after: int = 5_000
    kept: int = 2_000_000
    pillars: int = 0

    def versions(self, numbers: Numbers, come: int) -> Numbers:
        """The version of each of these rows once so many have come; -1 of one that is not there."""
        changed = one_in(numbers, "changed", CHANGED_ONE_IN) & (numbers < come - self.changed_after)
        withdrawn = one_in(numbers, "withdrawn", WITHDRAWN_ONE_IN) & (numbers < come - self.withdrawn_after)
        old = (numbers < come - self.kept) & (numbers >= self.pillars)
        absent = (numbers >= come) | withdrawn | old
        return np.where(absent, _NOT_THERE, changed.astype(np.int64))

    def moved(self, start: int, stop: int) -> Numbers:
        """The rows that may come, change or go while those from `start` to `stop` come."""
        after = (0, self.changed_after, self.withdrawn_after, self.kept)
        spans = [np.arange(max(start - by, 0), max(stop - by, 0)) for by in after]
        return np.unique(np.concatenate(spans))


class Lived(Protocol):
    """A table whose rows are made by number. With a key, a row takes the place of the one with its key."""

    @property
    def name(self) -> str: ...

    @property
    def has_key(self) -> bool: ...

    @property
    def life(self) -> Life: ...

    def come(self, events: int) -> int:
        """How many rows have come after so many events of all kinds."""

    def rows(self, numbers: Numbers, versions: Numbers) -> pa.Table:
        """These rows, in these versions."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some events: how many there have been with them, what they do to each table, and by how much it grows.

    The rows have their `_weight`; of a table with a key, there is at most one of each.
    """

    events: int
    frames: dict[str, pa.Table]
    grown: dict[str, int]

    @property
    def rows(self) -> int:
        return sum(frame.num_rows for frame in self.frames.values())


def changes(table: Lived, start: int, stop: int) -> tuple[pa.Table, int]:
    """What becomes of the table from one event to another, and by how many rows it grows."""
    before, after = table.come(start), table.come(stop)
    numbers = table.life.moved(before, after)
    old, new = table.life.versions(numbers, before), table.life.versions(numbers, after)
    was, is_ = old != _NOT_THERE, new != _NOT_THERE
    goes, comes = was & (old != new), is_ & (old != new)
    if table.has_key:
        goes &= ~comes
    parts = [
        table.rows(numbers[chosen], versions[chosen]).append_column(
            WEIGHT, pa.array(np.full(int(chosen.sum()), weight))
        )
        for chosen, versions, weight in ((goes, old, -1), (comes, new, 1))
    ]
    return pa.concat_tables(parts), int(is_.sum()) - int(was.sum())


@dataclass(frozen=True, slots=True)
class Course:
    """How events come: at first a `history` of them at once, which ends at `start_us`, then `batch` by batch.

    Each happens `event_us` after the one before it.
    """

    tables: Sequence[Lived]
    start_us: int
    history: int
    batch: int
    event_us: int

    def __iter__(self) -> Iterator[Batch]:
        """Without end."""
        start, stop = 0, self.history
        while True:
            found = {table.name: changes(table, start, stop) for table in self.tables}
            frames = {name: rows for name, (rows, _) in found.items() if rows.num_rows}
            yield Batch(stop, frames, {name: grown for name, (_, grown) in found.items()})
            start, stop = stop, stop + self.batch

    def clock(self, events: int) -> datetime:
        """When the last of so many events happens."""
        return _EPOCH + timedelta(microseconds=self.start_us + (events - self.history) * self.event_us)
