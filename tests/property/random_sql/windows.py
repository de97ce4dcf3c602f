"""Window functions, and the first few rows of an order. What the order leaves open is not drawn."""

from collections.abc import Sequence

from property.random_sql.aggregates import fresh_columns
from property.random_sql.tables import PLAIN
from property.random_sql.tree import Columns, Sql, Text, leaf, seen
from property.random_sql.values import Draw, choose, columns_of, condition, fill, kind_in, ordered, value

RANKS = (
    ("INT", "rank()"),
    ("INT", "dense_rank()"),
    ("DECIMAL", "percent_rank()"),
    ("DECIMAL", "cume_dist()"),
)
"""Of rows that are equal by the order, all the same."""
PLACED = (
    ("INT", "row_number()"),
    ("INT", "ntile(3)"),
    ("T", "lag({T})"),
    ("T", "lag({T}, 2, {T})"),
    ("T", "lead({T})"),
    ("T", "lead({T}, 2)"),
    ("T", "lag({T}) IGNORE NULLS"),
)
"""By a total order, without a frame."""
REACHED = (
    ("T", "first_value({T})"),
    ("T", "last_value({T})"),
    ("T", "nth_value({T}, 2)"),
    ("T", "first_value({T}) IGNORE NULLS"),
    ("T", "last_value({T}) IGNORE NULLS"),
)
"""By a total order, in a frame."""
SUMMED = (
    ("BIGINT", "count(*)"),
    ("BIGINT", "count({ANY})"),
    ("BIGINT", "sum({INT})"),
    ("BIGINT", "sum({BIGINT})"),
    ("DOUBLE", "sum({DOUBLE})"),
    ("T", "min({T})"),
    ("T", "max({T})"),
    ("BOOLEAN", "bool_or({BOOLEAN})"),
    ("DECIMAL", "sum({DECIMAL})"),
    ("DECIMAL", "avg({DECIMAL})"),
    ("DECIMAL", "avg({DOUBLE})"),
    ("DECIMAL", "avg({INT})"),
)
"""In any frame; a DECIMAL is cast to be one."""
BOUNDS = (
    "UNBOUNDED PRECEDING",
    "3 PRECEDING",
    "1 PRECEDING",
    "CURRENT ROW",
    "1 FOLLOWING",
    "2 FOLLOWING",
    "UNBOUNDED FOLLOWING",
)
STEPS = {
    "INT": ("1", "2"),
    "BIGINT": ("1", "3"),
    "DOUBLE": ("0.5D", "1.5D"),
    "DECIMAL": ("0.50", "1.00"),
    "DATE": ("1", "INTERVAL 2 DAYS"),
    "TIMESTAMP": ("INTERVAL 5 MINUTES", "INTERVAL 150 SECONDS"),
}
"""By how much a RANGE reaches, by the type that it orders by."""


def total(draw: Draw, scope: Columns) -> str:
    """An order in which only equal rows are equal."""
    return ", ".join(
        column.name + draw.random.choice(("", "", " DESC", " NULLS LAST", " DESC NULLS FIRST"))
        for column in draw.random.sample(scope, len(scope))
    )


def windowed(draw: Draw, relation: Sql) -> Sql:
    """Some columns and some window functions beside them.

    No more than one of those tells equal rows apart: which of them another one would mean is open.
    """
    alias, text = draw.fresh("q"), Text()
    source, scope = text(relation), ordered(seen(relation, alias))
    shown = columns_of(draw, scope, draw.random.randint(1, 4))
    shown += [alike(draw, scope) for _ in range(draw.random.choice((0, 0, 1, 2)))]
    shown.append(over(draw, scope))
    rest = ""
    if draw.chance(0.15):
        name = draw.fresh("w")
        shown += [_called(draw, Text(), SUMMED, scope, name) for _ in range(2)]
        rest = f" WINDOW {name} AS ({_partition(draw, text, scope)}{_range(draw, scope)})"
    columns = fresh_columns(draw, shown)
    return text.done(columns, f"(SELECT {text.named(shown, columns)} FROM {source} {alias}{rest})")


def over(draw: Draw, scope: Columns) -> Sql:
    """A window function."""
    return draw.random.choice((alike, apart))(draw, scope)


def alike(draw: Draw, scope: Columns) -> Sql:
    """One that is the same for rows that its order does not tell apart."""
    text = Text()
    by = _partition(draw, text, scope)
    match draw.random.randrange(3):
        case 0:
            return _called(draw, text, RANKS, scope, f"{by}ORDER BY {_few(draw, scope)}")
        case 1:
            order = draw.random.choice(("", f"ORDER BY {_few(draw, scope)}"))
            return _called(draw, text, SUMMED, scope, by + order)
        case _:
            return _called(draw, text, SUMMED, scope, by + _range(draw, scope))


def apart(draw: Draw, scope: Columns) -> Sql:
    """One that goes by the place of a row, in an order that leaves only equal rows open."""
    text = Text()
    window = f"{_partition(draw, text, scope)}ORDER BY {total(draw, scope)}"
    if draw.chance(0.4):
        return _called(draw, text, PLACED, scope, window)
    return _called(draw, text, REACHED + SUMMED, scope, f"{window} ROWS {_rows(draw)}")


def _partition(draw: Draw, text: Text, scope: Columns) -> str:
    parts = columns_of(draw, scope, draw.random.choice((0, 1, 1, 1, 2)))
    return f"PARTITION BY {text.all(parts)} " if parts else ""


def _few(draw: Draw, scope: Columns) -> str:
    """An order that may leave rows equal."""
    return total(draw, tuple(draw.random.sample(scope, draw.random.randint(1, min(2, len(scope))))))


def _called(draw: Draw, text: Text, functions: Sequence[tuple[str, str]], scope: Columns, window: str) -> Sql:
    """One of the functions."""
    template = choose(draw, [template for _, template in functions], scope)
    kind = next(kind for kind, known in functions if known == template)
    if kind == "T":
        kind = kind_in(draw, scope)
    rows = ""
    if functions is SUMMED and draw.chance(0.1):
        rows = f" FILTER (WHERE {text(condition(draw, scope, 0))})"
    call = f"{text(fill(draw, template, kind, scope, 0))}{rows} OVER ({window})"
    return text.done(kind, f"try_cast({call} AS DECIMAL(12,2))" if kind == "DECIMAL" else call)


def _rows(draw: Draw) -> str:
    first, last = sorted(draw.random.choices(range(len(BOUNDS)), k=2))
    if first == last == 0 or first == last == len(BOUNDS) - 1:
        first, last = 0, len(BOUNDS) - 1
    return f"BETWEEN {BOUNDS[first]} AND {BOUNDS[last]}"


def _range(draw: Draw, scope: Columns) -> str:
    """Within some distance of a number or time; without one to order by, among all."""
    known = [column for column in scope if column.type in STEPS]
    if not known:
        return ""
    column = draw.random.choice(known)
    near, far = STEPS[column.type]
    first, last = draw.random.choice(
        (
            (f"{near} PRECEDING", f"{near} FOLLOWING"),
            (f"{far} PRECEDING", "CURRENT ROW"),
            ("CURRENT ROW", f"{far} FOLLOWING"),
            ("UNBOUNDED PRECEDING", f"{near} PRECEDING"),
            (f"{near} FOLLOWING", "UNBOUNDED FOLLOWING"),
        )
    )
    order = column.name + draw.random.choice(("", " DESC", " NULLS LAST"))
    return f"ORDER BY {order} RANGE BETWEEN {first} AND {last}"


def qualified(draw: Draw, relation: Sql) -> Sql:
    """QUALIFY: the first few of each group, or those whose window function is something."""
    alias, text = draw.fresh("q"), Text()
    source, scope = text(relation), ordered(seen(relation, alias))
    shown = [leaf(column) for column in scope]
    columns = fresh_columns(draw, shown)
    select = f"SELECT {text.named(shown, columns)} FROM {source} {alias}"
    if draw.chance(0.3):
        function = over(draw, scope)
        right = value(draw, str(function.sort), (), 0)
        test = (
            f"{draw.random.choice(('>', '<=', '<=>'))} {text(right)}" if function.sort in PLAIN else "IS NULL"
        )
        return text.done(columns, f"({select} QUALIFY {text(function)} {test})")
    by = _partition(draw, text, scope)
    first, order = draw.random.choice((("row_number()", total), ("rank()", _few), ("dense_rank()", _few)))
    few = draw.random.choice(("= 1", "<= 2", "<= 3", "< 2"))
    return text.done(columns, f"({select} QUALIFY {first} OVER ({by}ORDER BY {order(draw, scope)}) {few})")


def limited(draw: Draw, relation: Sql) -> Sql:
    """ORDER BY with LIMIT."""
    alias, text = draw.fresh("q"), Text()
    source, scope = text(relation), ordered(seen(relation, alias))
    shown = [leaf(column) for column in scope]
    columns = fresh_columns(draw, shown)
    rest = draw.random.choice(("LIMIT 1", "LIMIT 3", "LIMIT 7", "LIMIT 3 OFFSET 2", "LIMIT 100"))
    order = total(draw, scope)
    return text.done(
        columns, f"(SELECT {text.named(shown, columns)} FROM {source} {alias} ORDER BY {order} {rest})"
    )
