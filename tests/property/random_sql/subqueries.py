"""Subqueries that are values: of one value, IN, EXISTS, correlated or not. Their relation is given."""

from property.random_sql.aggregates import aggregate
from property.random_sql.tables import PLAIN
from property.random_sql.tree import Columns, Sql, Text, leaf, seen
from property.random_sql.values import Draw, condition, ordered, value
from property.random_sql.windows import total


def scalar(draw: Draw, kind: str, outer: Columns, below: Sql) -> Sql:
    """A subquery that gives one value: an aggregate, or the first of an order."""
    alias, text = draw.fresh("q"), Text()
    scope = ordered(seen(below, alias))
    if draw.chance(0.15):
        first = text(value(draw, kind, scope, 0))
        rest = f"{_where(draw, text, scope, outer)} ORDER BY {total(draw, scope)} LIMIT 1"
        return text.done(kind, f"(SELECT {first} FROM {text(below)} {alias}{rest})")
    found, source = text(aggregate(draw, kind, scope)), text(below)
    return text.done(kind, f"(SELECT {found} FROM {source} {alias}{_where(draw, text, scope, outer)})")


def predicate(draw: Draw, outer: Columns, below: Sql) -> Sql:
    """A condition with a subquery in it, alone or beside another condition."""
    text = Text()
    found = text(draw.random.choice((_member, _exists, _compared))(draw, outer, below))
    beside = text(condition(draw, outer))
    form = draw.random.choice(("{}", "{}", "{}", "({} AND {other})", "({} OR {other})", "NOT {}"))
    return text.done("BOOLEAN", form.format(found, other=beside))


def _member(draw: Draw, outer: Columns, below: Sql) -> Sql:
    alias, text = draw.fresh("q"), Text()
    scope = ordered(seen(below, alias))
    kind = draw.random.choice([column.type for column in scope if column.type in PLAIN] or ["INT"])
    one = text(value(draw, kind, outer))
    found, source, where = text(value(draw, kind, scope, 0)), text(below), _where(draw, text, scope, outer)
    if draw.chance(0.2):
        one, found = (
            f"({one}, {text(value(draw, 'INT', outer))})",
            f"{found}, {text(value(draw, 'INT', scope, 0))}",
        )
    inner = f"SELECT {found} FROM {source} {alias}{where}"
    return text.done("BOOLEAN", f"({one} {draw.random.choice(('IN', 'NOT IN'))} ({inner}))")


def _exists(draw: Draw, outer: Columns, below: Sql) -> Sql:
    alias, text = draw.fresh("q"), Text()
    where = _where(draw, text, ordered(seen(below, alias)), outer)
    word = draw.random.choice(("EXISTS", "NOT EXISTS"))
    return text.done("BOOLEAN", f"({word} (SELECT 1 FROM {text(below)} {alias}{where}))")


def _compared(draw: Draw, outer: Columns, below: Sql) -> Sql:
    text, kind = Text(), draw.random.choice(("INT", "BIGINT", "DECIMAL", "STRING", "DATE"))
    left, right = text(value(draw, kind, outer)), text(scalar(draw, kind, outer, below))
    return text.done("BOOLEAN", f"({left} {draw.random.choice(('<', '=', '>=', '<=>'))} {right})")


def _where(draw: Draw, text: Text, inner: Columns, outer: Columns) -> str:
    """Correlated with what is outside, by an equality; or not."""
    pairs = [(a, b) for a in inner for b in outer if a.type == b.type and a.type in PLAIN]
    found = []
    if pairs and draw.chance(0.65):
        a, b = draw.random.choice(pairs)
        found.append(f"{text(leaf(a))} {draw.random.choice(('=', '=', '=', '<=>'))} {text(leaf(b))}")
        if draw.chance(0.2):
            a, b = draw.random.choice(pairs)
            found.append(f"{text(leaf(a))} {draw.random.choice(('<', '>=', '<>'))} {text(leaf(b))}")
    if draw.chance(0.3):
        found.append(text(condition(draw, inner)))
    return f" WHERE {' AND '.join(found)}" if found else ""
