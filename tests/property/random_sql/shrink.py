"""Makes a case small that goes wrong: fewer views, steps and rows, simpler queries, and the same fault."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from property.random_sql.case import Case, View
from property.random_sql.changes import Change, Impossible, Rows, advance
from property.random_sql.tables import SQL_TYPES, TABLES
from property.random_sql.tree import Sql, leaf, names
from property.random_sql.values import CONSTANTS, null

Fails = Callable[[Case], bool]
"""Whether a case shows the fault."""


def shrink(case: Case, fails: Fails, seconds: float) -> Case:
    """The smallest case found in that time; each step of the way shows the fault."""
    end = time.monotonic() + seconds

    def still(candidate: Case) -> bool:
        return time.monotonic() < end and possible(candidate) and fails(candidate)

    before = None
    while before != case and time.monotonic() < end:
        before = case
        for lessen in (_without_views, _without_steps, _simpler_queries, _without_changes):
            case = _lessened(case, lessen, still)
    return case


def _lessened(case: Case, lessen: Callable[[Case], Sequence[Case]], still: Fails) -> Case:
    """Take the first of the lesser cases that will do, as often as there is one, and none is tried twice."""
    at = 0
    while at < len(candidates := lessen(case)):
        if str(candidates[at]) != str(case) and still(candidates[at]):
            # What was in vain before this one would mostly be so again.
            case = candidates[at]
        else:
            at += 1
    return case


def possible(case: Case) -> bool:
    """Whether no row is deleted that is not there."""
    rows: Rows = {name: [] for name in TABLES}
    try:
        for step in case.steps:
            rows = advance(rows, step)
    except Impossible:
        return False
    return True


def _with_view(case: Case, at: int, view: View) -> Case:
    return replace(case, views=(*case.views[:at], view, *case.views[at + 1 :]))


def _without_views(case: Case) -> list[Case]:
    """With one view and what it reads, without one, with the query of another instead of its name."""
    found = []
    for view in case.views:
        needed = {view.name}
        for other in reversed(case.views):
            needed |= other.reads if other.name in needed else set()
        found.append(replace(case, views=tuple(one for one in case.views if one.name in needed)))
    unread = [view for view in case.views if not any(view.name in other.reads for other in case.views)]
    found += [replace(case, views=tuple(one for one in case.views if one is not view)) for view in unread]
    for at, view in enumerate(case.views):
        for other in case.views:
            if other.name in view.reads and isinstance(view.query, Sql) and isinstance(other.query, Sql):
                reads = view.reads - {other.name} | other.reads
                found.append(
                    _with_view(case, at, replace(view, query=_inlined(view.query, other), reads=reads))
                )
    return [one for one in found if one.views]


def _inlined(query: Sql, other: View) -> Sql:
    """With the query of the other view instead of its name."""
    assert isinstance(other.query, Sql)
    for place, piece in list(query.places()):
        if piece.template == other.name:
            query = query.put(place, other.query)
    return query


def _without_steps(case: Case) -> list[Case]:
    """Without a step, with one and the next made at once, never opened again, views created at once."""
    found = []
    for at in range(len(case.steps)):
        views = tuple(replace(view, since=view.since - (view.since > at)) for view in case.views)
        before, after = case.steps[:at], case.steps[at + 1 :]
        found.append(replace(case, steps=(*before, *after), views=views, reopened=None))
        if at:
            together = (*before[:-1], before[-1] + case.steps[at], *after)
            found.append(replace(case, steps=together, views=views, reopened=None))
    found += [replace(case, reopened=None), replace(case, workers=(2, 2)), replace(case, cut=None)]
    found += [_with_view(case, at, replace(view, since=0)) for at, view in enumerate(case.views)]
    return found


def _without_changes(case: Case) -> list[Case]:
    """Without a table, then without more and more of the changes, and without all of one row."""
    changes = [change for step in case.steps for append in step for change in append]
    lost = [[change for change in changes if change.table == table] for table in TABLES]
    lost += [changes[at : at + size] for size in (16, 4, 1) for at in range(0, len(changes), size)]
    by_row: dict[str, list[Change]] = {}
    for change in changes:
        by_row.setdefault(f"{change.table} {change.row}", []).append(change)
    lost += [alike for alike in by_row.values() if len(alike) > 1]
    return [_without(case, {id(change) for change in gone}) for gone in lost]


def _simpler_queries(case: Case) -> list[Case]:
    return [
        _with_view(case, at, replace(view, query=query))
        for at, view in enumerate(case.views)
        if isinstance(view.query, Sql)
        for query in simpler(view.query)
    ]


def _without(case: Case, gone: set[int]) -> Case:
    steps = tuple(
        tuple(kept for append in step if (kept := tuple(one for one in append if id(one) not in gone)))
        for step in case.steps
    )
    return replace(case, steps=steps)


def simpler(query: Sql) -> Iterator[Sql]:
    """The query with something simpler in the place of one of its pieces, the outer before the inner."""
    for place, piece in query.places():
        for other in _instead(piece):
            if len(str(other)) < len(str(piece)):
                yield query.put(place, other)
    for column in query.columns if len(query.columns) > 1 else ():
        yield Sql((column,), f"(SELECT {column.name} FROM {{0}})", (query,))


def _instead(piece: Sql) -> Iterator[Sql]:
    if isinstance(piece.sort, str):
        yield from (inner for place, inner in piece.places() if place and inner.sort == piece.sort)
        yield from (Sql(piece.sort, text) for text in CONSTANTS[piece.sort][:1])
        yield null(piece.sort)
        return
    for place, inner in piece.places():
        if place and isinstance(inner.sort, tuple):
            yield _as(inner, piece)


def _as(inner: Sql, piece: Sql) -> Sql:
    """The inner relation, with the columns of the outer: each one of its type, or NULL."""
    shown, left = [], list(inner.columns)
    for column in piece.columns:
        fitting = next((one for one in left if one.type == column.type), None)
        if fitting is not None:
            left.remove(fitting)
        found = leaf(fitting) if fitting else Sql(column.type, f"CAST(NULL AS {SQL_TYPES[column.type]})")
        shown.append(f"{found} AS {column.name}")
    if names(piece.columns) == names(inner.columns):
        return inner
    return Sql(piece.sort, f"(SELECT {', '.join(shown)} FROM {{0}})", (inner,))
