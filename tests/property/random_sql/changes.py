"""What happens to the tables: appends as plain data, drawn at random, and the rows that they leave."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from property.changing_tables import Row, Table, canonical
from property.random_sql.tables import FOLKS, TABLES, row_of
from tidemill import Pipeline


@dataclass(frozen=True, slots=True)
class Change:
    """So many more of a row; less, if negative. With a primary key 1 puts the row, -1 removes its key."""

    table: str
    row: Row
    weight: int = 1


Append = tuple[Change, ...]
Step = tuple[Append, ...]
Rows = dict[str, list[Row]]


class Impossible(Exception):
    """A row is deleted that is not there."""


def advance(rows: Rows, step: Step) -> Rows:
    """The rows of the tables after a step. Raises `Impossible`."""
    found = {name: list(held) for name, held in rows.items()}
    changes = [change for append in step for change in append]
    for change in changes:
        if TABLES[change.table].key:
            _put(found[change.table], change)
    for name, table in TABLES.items():
        if not table.key:
            found[name] = _sum(found[name], [change for change in changes if change.table == name])
    return found


def _put(held: list[Row], change: Change) -> None:
    at = next((at for at, row in enumerate(held) if row[0] == change.row[0]), None)
    if at is not None:
        del held[at]
    elif change.weight < 0:
        raise Impossible(f"{change.table} has no row of key {change.row[0]}")
    if change.weight > 0:
        held.append(change.row)


def _sum(held: list[Row], changes: Iterable[Change]) -> list[Row]:
    """Rows are equal when they are written alike: no two NaN are equal for Python."""
    known = {spelled(row): row for row in held} | {spelled(change.row): change.row for change in changes}
    counts = Counter(map(spelled, held))
    for change in changes:
        counts[spelled(change.row)] += change.weight
    if min(counts.values(), default=0) < 0:
        raise Impossible("a row is deleted that is not there")
    return [known[text] for text, count in counts.items() for _ in range(count)]


def spelled(row: Row) -> str:
    return repr(canonical(row))


def feed(pipeline: Pipeline, step: Step) -> None:
    """Append what the step has."""
    for append in step:
        frames = {
            name: table.arrow([change.row for change in found], [change.weight for change in found])
            for name, table in TABLES.items()
            if (found := [change for change in append if change.table == name])
        }
        pipeline.apply(frames)


# At random


def draw_steps(random: Random, count: int) -> tuple[Step, ...]:
    """Some steps, from empty tables. Now and then one does nothing, and now and then a table is emptied."""
    rows: Rows = {name: [] for name in TABLES}
    left_out = random.choice([None, None, *TABLES])
    found = []
    for number in range(count):
        step: Step = ()
        if number == 0 or not random.random() < 0.1:
            step = _step(random, rows, left_out if number < 2 else None)
        rows = advance(rows, step)
        found.append(step)
    return tuple(found)


def _step(random: Random, rows: Rows, left_out: str | None) -> Step:
    appends: list[list[Change]] = [[] for _ in range(random.randint(1, 3))]
    for name, table in TABLES.items():
        if name == left_out:
            continue
        if table is FOLKS:
            _keyed(random, rows[name], appends)
        else:
            for change in _changes(random, table, rows[name]):
                random.choice(appends).append(change)
    return tuple(tuple(append) for append in appends if append)


def _changes(random: Random, table: Table, held: Sequence[Row]) -> list[Change]:
    """Inserts, deletes, updates, repeats, and rows that come and go at once."""
    if held and random.random() < 0.08:
        return [Change(table.name, row, -1) for row in held]
    most = 3 if len(held) > 12 else 8
    found = [
        Change(table.name, row_of(table, random), random.choice([1, 1, 1, 2]))
        for _ in range(random.randint(0, most))
    ]
    left = list(held)
    random.shuffle(left)
    for row in left[: random.randint(0, min(6, len(left)))]:
        found.append(Change(table.name, row, -1))
        if random.random() < 0.5:
            found.append(Change(table.name, _altered(random, table, row)))
    if left and random.random() < 0.4:
        found.append(Change(table.name, random.choice(left)))
    if random.random() < 0.2:
        passing = row_of(table, random)
        found += [Change(table.name, passing, 2), Change(table.name, passing, -2)]
    return found


def _altered(random: Random, table: Table, row: Row) -> Row:
    at = random.randrange(len(table.columns))
    return (*row[:at], table.columns[at].value(random), *row[at + 1 :])


def _keyed(random: Random, held: Sequence[Row], appends: list[list[Change]]) -> None:
    """Puts and removals by key, each key at most once in an append."""
    keys: set[Any] = {row[0] for row in held}
    for append in appends:
        touched: set[Any] = set()
        for _ in range(random.randint(0, 5)):
            row = row_of(FOLKS, random)
            if row[0] in touched:
                continue
            touched.add(row[0])
            remove = row[0] in keys and random.random() < 0.4
            append.append(Change(FOLKS.name, row, -1 if remove else 1))
            (keys.discard if remove else keys.add)(row[0])
