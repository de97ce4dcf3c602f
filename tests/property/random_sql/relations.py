"""Relations: a table or view, or an operator over smaller relations, drawn down to some depth."""

from collections.abc import Callable

from property.random_sql import aggregates, windows
from property.random_sql.aggregates import fresh_columns
from property.random_sql.subqueries import predicate, scalar
from property.random_sql.tables import PLAIN, SQL_TYPES
from property.random_sql.tree import Column, Columns, Sql, Text, leaf, names, seen
from property.random_sql.values import Draw, columns_of, condition, constant, kind_in, ordered, value

Operator = Callable[[Draw, int], Sql]
"""Draws a relation, with relations of lesser depth below it."""


def relation(draw: Draw, depth: int) -> Sql:
    """A random relation, of so many operators above each other at most."""
    if depth <= 0:
        return draw.random.choice(draw.relations)
    operators = {
        operator: weight
        for operator, weight in OPERATORS.items()
        if draw.joins > 0 or operator not in (joined, lateral)
    }
    [operator] = draw.random.choices(list(operators), list(operators.values()))
    return operator(draw, depth)


# Over one


def selected(draw: Draw, depth: int) -> Sql:
    """SELECT … WHERE, with subqueries now and then in either."""
    below, alias, text = relation(draw, depth - 1), draw.fresh("q"), Text()
    scope = seen(below, alias)
    shown = columns_of(draw, scope, draw.random.randint(1, 4))
    for _ in range(draw.random.randint(0, 3)):
        kind = kind_in(draw, scope)
        if draw.joins > 0 and draw.chance(0.15):
            shown.append(scalar(draw, kind, scope, _smaller(draw, depth)))
        elif draw.joins > 0 and draw.chance(0.05):
            shown.append(predicate(draw, scope, _smaller(draw, depth)))
        else:
            shown.append(value(draw, kind, scope, 2))
    columns = fresh_columns(draw, shown)
    listed, source = text.named(shown, columns), text(below)
    where = ""
    if draw.joins > 0 and draw.chance(0.35):
        where = f" WHERE {text(predicate(draw, scope, _smaller(draw, depth)))}"
    elif draw.chance(0.6):
        where = f" WHERE {text(condition(draw, scope, 2))}"
    return text.done(columns, f"(SELECT {listed} FROM {source} {alias}{where})")


def _smaller(draw: Draw, depth: int) -> Sql:
    """What a subquery reads."""
    draw.joins -= 1
    return relation(draw, draw.random.randint(0, max(0, depth - 2)))


def over(make: Callable[[Draw, Sql], Sql]) -> Operator:
    """The operator over any one relation."""
    return lambda draw, depth: make(draw, relation(draw, depth - 1))


def distinct(draw: Draw, depth: int) -> Sql:
    below, alias, text = relation(draw, depth - 1), draw.fresh("q"), Text()
    shown = columns_of(draw, ordered(seen(below, alias)), draw.random.randint(1, 3))
    columns = fresh_columns(draw, shown)
    return text.done(columns, f"(SELECT DISTINCT {text.named(shown, columns)} FROM {text(below)} {alias})")


def generated(draw: Draw, depth: int) -> Sql:
    """LATERAL VIEW with a function that makes rows."""
    below, alias, text, made = relation(draw, depth - 1), draw.fresh("q"), Text(), draw.fresh("g")
    scope = seen(below, alias)
    maps = [column for column in scope if column.type == "MAP"]
    array = text(value(draw, "ARRAY", scope))
    one, other = text(value(draw, "INT", scope)), text(value(draw, "INT", scope))
    first, second, third = (draw.fresh("c") for _ in range(3))
    choices = [
        (f"explode({array})", [(first, "INT")]),
        (f"posexplode({array})", [(second, "INT"), (first, "INT")]),
        (f"explode(array({one}, {other}, 2))", [(first, "INT")]),
        (f"stack(2, {one}, 'x', {other}, 'y')", [(first, "INT"), (third, "STRING")]),
        (
            f"inline(array(named_struct('a', {one}, 'b', 'x'), named_struct('a', {other}, 'b', 'y')))",
            [(first, "INT"), (third, "STRING")],
        ),
    ]
    if maps:
        choices += [(f"explode({maps[0].name})", [(third, "STRING"), (first, "INT")])] * 3
    call, new = draw.random.choice(choices)
    kept = columns_of(draw, ordered(scope), draw.random.randint(1, 3))
    columns = fresh_columns(draw, kept)
    source, fields = text(below), ", ".join(name for name, _ in new)
    view = draw.random.choice(
        (
            f"LATERAL VIEW {call} {made} AS {fields}",
            f"LATERAL VIEW OUTER {call} {made} AS {fields}",
            f", LATERAL {call} AS {made}({fields})",
            f"LEFT JOIN LATERAL {call} AS {made}({fields}) ON true",
        )
    )
    shown = f"{text.named(kept, columns)}, {', '.join(f'{made}.{name}' for name, _ in new)}"
    return text.done(
        (*columns, *(Column(*one) for one in new)), f"(SELECT {shown} FROM {source} {alias} {view})"
    )


def constants(draw: Draw, depth: int) -> Sql:
    """VALUES, or the numbers of a range."""
    if draw.chance(0.3):
        alias = draw.fresh("c")
        return Sql((Column(alias, "BIGINT"),), f"(SELECT id AS {alias} FROM range(0, 4))")
    text = Text()
    kinds = [draw.random.choice(PLAIN) for _ in range(draw.random.randint(1, 3))]
    columns = tuple(Column(draw.fresh("c"), kind) for kind in kinds)
    casts = ", ".join(
        f"CAST({column.name} AS {SQL_TYPES[column.type]}) AS {column.name}" for column in columns
    )
    rows = ", ".join(
        f"({text.all(constant(draw, kind) for kind in kinds)})" for _ in range(draw.random.randint(1, 4))
    )
    return text.done(columns, f"(SELECT {casts} FROM VALUES {rows} AS {draw.fresh('q')}({names(columns)}))")


# Over two


def joined(draw: Draw, depth: int) -> Sql:
    """A join of any kind; at least one side is shallow, as pairs multiply."""
    draw.joins -= 1
    sides = [relation(draw, depth - 1), relation(draw, draw.random.randint(0, max(0, depth - 2)))]
    draw.random.shuffle(sides)
    left, right = sides
    if draw.chance(0.1):
        return _joined_by_name(draw, left, right)
    one, other, text = draw.fresh("q"), draw.fresh("q"), Text()
    first, second = seen(left, one), seen(right, other)
    how = draw.random.choice(
        (
            "JOIN",
            "JOIN",
            "LEFT JOIN",
            "LEFT JOIN",
            "RIGHT JOIN",
            "FULL JOIN",
            "FULL JOIN",
            "LEFT SEMI JOIN",
            "LEFT ANTI JOIN",
            "CROSS JOIN",
        )
    )
    scope = first if how.startswith(("LEFT SEMI", "LEFT ANTI")) else first + second
    shown = columns_of(draw, scope, draw.random.randint(2, 5))
    if draw.chance(0.3):
        shown.append(value(draw, kind_in(draw, scope), scope))
    columns = fresh_columns(draw, shown)
    listed = text.named(shown, columns)
    sources = f"{text(left)} {one} {how} {text(right)} {other}"
    on = "" if how == "CROSS JOIN" else f" ON {meeting(draw, text, first, second)}"
    if on and draw.joins > 0 and draw.chance(0.05):
        on += f" AND {text(predicate(draw, draw.random.choice((first, second)), _smaller(draw, 0)))}"
    return text.done(columns, f"(SELECT {listed} FROM {sources}{on})")


def meeting(draw: Draw, text: Text, first: Columns, second: Columns) -> str:
    """The condition of a join: mostly with an equality, sometimes by a range, sometimes anything."""
    pairs = [(a, b) for a in first for b in second if a.type == b.type and a.type in PLAIN]
    if not pairs or draw.chance(0.08):
        return text(condition(draw, first + second))
    found = []
    for a, b in draw.random.sample(pairs, min(len(pairs), draw.random.choice((1, 1, 1, 2)))):
        sign = draw.random.choice(("=", "=", "=", "=", "=", "<=>", "<", ">="))
        found.append(f"{text(leaf(a))} {sign} {text(leaf(b))}")
    if draw.chance(0.3):
        found.append(text(condition(draw, draw.random.choice((first + second, first, second)))))
    if draw.chance(0.1):
        found.append(f"{text(value(draw, 'INT', first))} = {text(value(draw, 'INT', second))}")
    return " AND ".join(found)


def _joined_by_name(draw: Draw, left: Sql, right: Sql) -> Sql:
    """USING and NATURAL: one column of each side gets the name that both have."""
    text, one, other, key = Text(), draw.fresh("q"), draw.fresh("q"), draw.fresh("c")
    kind = draw.random.choice(("INT", "STRING"))
    sides: list[str] = []
    found: list[Column] = []
    for below, alias in ((left, one), (right, other)):
        scope = seen(below, alias)
        shown = [value(draw, kind, scope, 0), *columns_of(draw, ordered(scope), 2)]
        columns = (Column(key, kind), *fresh_columns(draw, shown[1:]))
        sides.append(f"(SELECT {text.named(shown, columns)} FROM {text(below)} {alias})")
        found += columns[1:]
    how = draw.random.choice(("", "LEFT ", "RIGHT ", "FULL "))
    join, using = draw.random.choice((("JOIN", f" USING ({key})"), ("NATURAL", "")))
    verb = f"NATURAL {how}JOIN" if join == "NATURAL" else f"{how}JOIN"
    columns = (Column(key, kind), *found)
    return text.done(columns, f"(SELECT {names(columns)} FROM {sides[0]} {verb} {sides[1]}{using})")


def combined(draw: Draw, depth: int) -> Sql:
    """UNION, INTERSECT and EXCEPT, with and without ALL."""
    sides = [relation(draw, depth - 1), relation(draw, draw.random.randint(0, depth - 1))]
    one, other, text = draw.fresh("q"), draw.fresh("q"), Text()
    shown = columns_of(draw, ordered(seen(sides[0], one)), draw.random.choice((1, 2, 2, 3)))
    scope = seen(sides[1], other)
    against = [value(draw, str(column.sort), scope, 0) for column in shown]
    columns = fresh_columns(draw, shown)
    word = draw.random.choice(("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"))
    left = f"SELECT {text.named(shown, columns)} FROM {text(sides[0])} {one}"
    return text.done(columns, f"({left} {word} SELECT {text.all(against)} FROM {text(sides[1])} {other})")


def lateral(draw: Draw, depth: int) -> Sql:
    """A subquery in FROM that sees the relations before it."""
    draw.joins -= 1
    left, right = relation(draw, depth - 1), relation(draw, 0)
    one, other, text, made = draw.fresh("q"), draw.fresh("q"), Text(), draw.fresh("g")
    first, second = seen(left, one), ordered(seen(right, other))
    shown = columns_of(draw, ordered(first), draw.random.randint(1, 3))
    columns = fresh_columns(draw, shown)
    listed, source = text.named(shown, columns), text(left)
    inner = aggregates.some_aggregates(draw, second) if draw.chance(0.5) else columns_of(draw, second, 2)
    new = fresh_columns(draw, inner)
    where = f"{text.named(inner, new)} FROM {text(right)} {other} WHERE {meeting(draw, text, second, first)}"
    if draw.chance(0.2):
        where = f"* FROM (SELECT {where}) ORDER BY {windows.total(draw, ordered(new))} LIMIT 2"
    how = draw.random.choice((", LATERAL", "JOIN LATERAL", "LEFT JOIN LATERAL"))
    on = " ON true" if how.startswith("LEFT") else ""
    return text.done(
        (*columns, *new),
        f"(SELECT {listed}, {names(new)} FROM {source} {one} {how} (SELECT {where}) {made}{on})",
    )


# With names


def shared(draw: Draw, depth: int) -> Sql:
    """WITH: a relation that the query may use several times."""
    below, name, text = relation(draw, depth - 1), draw.fresh("w"), Text()
    draw.relations.extend([Sql(below.columns, name)] * len(draw.relations))
    body = relation(draw, depth - 1)
    del draw.relations[len(draw.relations) // 2 :]
    definition = f"WITH {name} AS (SELECT * FROM {text(below)})"
    return text.done(body.columns, f"({definition} SELECT {names(body.columns)} FROM {text(body)})")


def recursive(draw: Draw, depth: int) -> Sql:
    """WITH RECURSIVE: three levels at most over few edges, as each may multiply the rows."""
    text, name, edges, start = Text(), draw.fresh("w"), relation(draw, 0), relation(draw, 0)
    one, other = draw.fresh("q"), draw.fresh("q")
    scope = seen(edges, other)
    seed, a, b = (
        value(draw, "INT", seen(start, one), 0),
        value(draw, "INT", scope, 0),
        value(draw, "INT", scope),
    )
    x, level = draw.fresh("c"), draw.fresh("c")
    columns = (Column(x, "INT"), Column(level, "INT"))
    step = f"(SELECT DISTINCT {text(a)} AS a, {text(b)} AS b FROM {text(edges)} {other})"
    return text.done(
        columns,
        f"(WITH RECURSIVE {name}({x}, {level}) AS (SELECT DISTINCT {text(seed)}, 0 FROM {text(start)} {one}"
        f" UNION ALL SELECT e.b, {level} + 1 FROM {name} JOIN {step} e ON e.a = {x} WHERE {level} < 3)"
        f" SELECT {x}, {level} FROM {name})",
    )


OPERATORS: dict[Operator, int] = {
    selected: 7,
    distinct: 2,
    generated: 3,
    constants: 1,
    joined: 10,
    combined: 4,
    lateral: 2,
    shared: 2,
    recursive: 1,
    over(aggregates.grouped): 8,
    over(aggregates.grouping_sets): 3,
    over(aggregates.by_time): 2,
    over(aggregates.pivoted): 1,
    over(aggregates.unpivoted): 1,
    over(windows.windowed): 6,
    over(windows.qualified): 3,
    over(windows.limited): 2,
}
"""By how often they are drawn."""
