"""Aggregates, and queries that group: by expressions, by grouping sets, by windows of time, by PIVOT."""

from collections.abc import Sequence

from property.random_sql.tables import PLAIN
from property.random_sql.tree import Column, Columns, Sql, Text, leaf, names, seen
from property.random_sql.values import Draw, choose, columns_of, condition, fill, kind_in, ordered, value

ANY_TYPE = ("min({T})", "max({T})", "max_by({T1}, struct({ANY}, {T1}))", "min_by({T1}, struct({ANY}, {T1}))")
OF_TYPE: dict[str, tuple[str, ...]] = {
    "INT": (
        "mode() WITHIN GROUP (ORDER BY {INT})",
        "bit_or({INT})",
        "bit_and({INT})",
        "percentile_disc(0.5) WITHIN GROUP (ORDER BY {INT})::INT",
        "size(collect_set({INT}))",
        "size(collect_list({STRING}))",
    ),
    "BIGINT": (
        "count(*)",
        "count({ANY})",
        "count({ANY}, {ANY})",
        "count(DISTINCT {ANY})",
        "count(DISTINCT {ANY}, {ANY})",
        "count_if({BOOLEAN})",
        "sum({INT})",
        "sum({BIGINT})",
        "sum(DISTINCT {INT})",
        "try_sum({BIGINT})",
        "regr_count({INT}, {DOUBLE})",
        "bit_xor({BIGINT})",
    ),
    "DOUBLE": ("sum({DOUBLE})", "median({INT})", "percentile({DOUBLE}, 0.25)", "sum(DISTINCT {DOUBLE})"),
    "DECIMAL": (
        "CAST(sum({DECIMAL}) AS DECIMAL(12,2))",
        "try_cast(avg({DOUBLE}) AS DECIMAL(12,2))",
        "try_cast(avg({INT}) AS DECIMAL(12,2))",
        "CAST(avg({DECIMAL}) AS DECIMAL(12,2))",
        "try_cast(avg(DISTINCT {DOUBLE}) AS DECIMAL(12,2))",
    ),
    "STRING": (
        "listagg({STRING1}, '|') WITHIN GROUP (ORDER BY {STRING1})",
        "listagg(DISTINCT {STRING1}, ',') WITHIN GROUP (ORDER BY {STRING1})",
    ),
    "BOOLEAN": ("bool_and({BOOLEAN})", "bool_or({BOOLEAN})"),
}
LOOSE = {
    "stddev({DOUBLE})": "DOUBLE",
    "stddev_pop({DOUBLE})": "DOUBLE",
    "covar_samp({INT}, {DOUBLE})": "DOUBLE",
    "regr_intercept({INT}, {INT})": "DOUBLE",
    "regr_r2({INT}, {INT})": "DOUBLE",
    "var_pop({INT})": "DOUBLE",
    "avg({DOUBLE})": "DOUBLE",
    "avg({INT})": "DOUBLE",
    "corr({INT}, {DOUBLE})": "DOUBLE",
    "covar_pop({DOUBLE}, {INT})": "DOUBLE",
    "skewness({INT})": "DOUBLE",
    "kurtosis({INT})": "DOUBLE",
    "regr_slope({INT}, {INT})": "DOUBLE",
    "percentile_cont(0.3) WITHIN GROUP (ORDER BY {INT})": "DOUBLE",
    "sum({DECIMAL})": "DECIMAL",
    "avg({DECIMAL})": "DECIMAL",
    "avg(DISTINCT {DECIMAL})": "DECIMAL",
}
"""Whose last digits are left open, or whose type is another decimal: good to look at, not to compute with."""
NO_FILTER = ("WITHIN GROUP", "::", "size(", "CAST", "try_cast")
"""Where FILTER does not come last."""
SPANS = ("'10 minutes'", "'10 minutes', '5 minutes'", "'7 minutes', '7 minutes', '2 minutes'")


def aggregate(draw: Draw, kind: str, scope: Columns) -> Sql:
    """An aggregate of this type over the columns in scope."""
    choices = OF_TYPE.get(kind, ())
    if not choices or draw.chance(0.3):
        choices = ANY_TYPE
    return _filtered(draw, choose(draw, choices, scope), kind, scope)


def _filtered(draw: Draw, template: str, kind: str, scope: Columns) -> Sql:
    found = fill(draw, template, kind, scope)
    if not draw.chance(0.2) or any(mark in template for mark in NO_FILTER):
        return found
    text = Text()
    return text.done(kind, f"{text(found)} FILTER (WHERE {text(condition(draw, scope))})")


def some_aggregates(draw: Draw, scope: Columns) -> list[Sql]:
    counts = ("BIGINT", "BIGINT", "DECIMAL", "DOUBLE", "INT", "STRING")
    kinds = [
        draw.random.choice(counts) if draw.chance(0.5) else kind_in(draw, scope)
        for _ in range(draw.random.randint(1, 3))
    ]
    return [aggregate(draw, kind, scope) for kind in kinds]


def fresh_columns(draw: Draw, values: Sequence[Sql]) -> Columns:
    """Columns with new names, of the types of the values."""
    return tuple(Column(draw.fresh("c"), str(one.sort)) for one in values)


def having(draw: Draw, text: Text, scope: Columns) -> str:
    """A condition on the groups, or nothing."""
    if not draw.chance(0.25):
        return ""
    kind = draw.random.choice(("BIGINT", "INT", "DECIMAL", "STRING"))
    left, right = aggregate(draw, kind, scope), value(draw, kind, (), 0)
    return (
        f" HAVING {text(left)} {draw.random.choice(['>', '<=', '<>', 'IS NOT DISTINCT FROM'])} {text(right)}"
    )


def grouped(draw: Draw, relation: Sql) -> Sql:
    """GROUP BY some columns or values, or none."""
    alias, text = draw.fresh("q"), Text()
    source = text(relation)
    scope = ordered(seen(relation, alias))
    keys = _keys(draw, scope, draw.random.choice((0, 1, 1, 2, 2, 3)))
    aggregates = some_aggregates(draw, scope)
    if not keys and draw.chance(0.5):
        keys = _keys(draw, scope, 1)
    columns = fresh_columns(draw, keys + aggregates)
    marks = [text(key) for key in keys]
    shown = ", ".join(f"{mark} AS {column.name}" for mark, column in zip(marks, columns, strict=False))
    picked = text.named(aggregates, columns[len(keys) :])
    by = f" GROUP BY {'ALL' if draw.chance(0.1) else ', '.join(marks)}" if keys else ""
    rest = having(draw, text, scope)
    return text.done(
        columns, f"(SELECT {', '.join(filter(None, (shown, picked)))} FROM {source} {alias}{by}{rest})"
    )


def _keys(draw: Draw, scope: Columns, count: int) -> list[Sql]:
    keys = columns_of(draw, scope, count)
    if keys and draw.chance(0.3):
        # In brackets, as a bare number would be taken for the place of a column.
        keys[0] = fill(
            draw,
            "coalesce({T}, {T})",
            draw.random.choice([one.type for one in scope if one.type in PLAIN] or PLAIN),
            scope,
        )
    return keys


def grouping_sets(draw: Draw, relation: Sql) -> Sql:
    alias, text = draw.fresh("q"), Text()
    source, scope = text(relation), ordered(seen(relation, alias))
    keys = columns_of(draw, scope, draw.random.choice((1, 2, 2, 3)))
    marks = [text(key) for key in keys]
    every, last = ", ".join(marks), marks[-1]
    by = draw.random.choice(
        (
            f"ROLLUP ({every})",
            f"CUBE ({every})",
            f"GROUPING SETS (({every}), ({last}), ())",
            f"GROUPING SETS ({', '.join(f'({mark})' for mark in marks)})",
            f"{marks[0]}, ROLLUP ({every})",
        )
    )
    which = draw.random.choice((f"grouping({keys[0]})", "grouping_id()"))
    aggregates = [*some_aggregates(draw, scope), Sql("BIGINT", f"CAST({which} AS BIGINT)")]
    columns = fresh_columns(draw, keys + aggregates)
    shown = ", ".join(f"{mark} AS {column.name}" for mark, column in zip(marks, columns, strict=False))
    picked = text.named(aggregates, columns[len(keys) :])
    rest = having(draw, text, scope)
    return text.done(columns, f"(SELECT {shown}, {picked} FROM {source} {alias} GROUP BY {by}{rest})")


def by_time(draw: Draw, relation: Sql) -> Sql:
    """Tumbling, hopping and session windows. Without a time to go by, all rows are one group or some."""
    alias, text = draw.fresh("q"), Text()
    source, scope = text(relation), ordered(seen(relation, alias))
    times = [column for column in scope if column.type == "TIMESTAMP"]
    if not times:
        return grouped(draw, relation)
    when = text(leaf(draw.random.choice(times)))
    keys = columns_of(draw, scope, draw.random.choice((0, 1)))
    if draw.chance(0.35):
        name, by = "session_window", f"session_window({when}, '5 minutes')"
    else:
        name, by = "window", f"window({when}, {draw.random.choice(SPANS)})"
    aggregates = some_aggregates(draw, scope)
    columns = fresh_columns(draw, [Sql("TIMESTAMP", "")] * 2 + keys + aggregates)
    bounds = f"{name}.start AS {columns[0].name}, {name}.end AS {columns[1].name}"
    marks = [text(key) for key in keys]
    shown = [bounds, *(f"{mark} AS {column.name}" for mark, column in zip(marks, columns[2:], strict=False))]
    shown.append(text.named(aggregates, columns[2 + len(keys) :]))
    groups = ", ".join((by, *marks))
    return text.done(columns, f"(SELECT {', '.join(shown)} FROM {source} {alias} GROUP BY {groups})")


def pivoted(draw: Draw, relation: Sql) -> Sql:
    alias, text = draw.fresh("q"), Text()
    scope = ordered(seen(relation, alias))
    kind = draw.random.choice(("BIGINT", "DECIMAL", "INT"))
    inner = [*columns_of(draw, scope, 1), value(draw, "STRING", scope), value(draw, "INT", scope)]
    held = fresh_columns(draw, inner)
    source = f"(SELECT {text.named(inner, held)} FROM {text(relation)} {alias})"
    function = aggregate(draw, kind, held[-1:])
    spots = [("'a'", draw.fresh("c")), ("'b'", draw.fresh("c")), ("''", draw.fresh("c"))]
    listed = ", ".join(f"{literal} AS {name}" for literal, name in spots)
    columns = (*held[:-2], *(Column(name, kind) for _, name in spots))
    return text.done(
        columns,
        f"(SELECT {names(columns)} FROM {source} PIVOT ({text(function)} FOR {held[-2].name} IN ({listed})))",
    )


def unpivoted(draw: Draw, relation: Sql) -> Sql:
    alias, text = draw.fresh("q"), Text()
    scope = ordered(seen(relation, alias))
    kind = draw.random.choice(("INT", "STRING", "DOUBLE"))
    inner = [*columns_of(draw, scope, 2), value(draw, kind, scope), value(draw, kind, scope)]
    held = fresh_columns(draw, inner)
    source = f"(SELECT {text.named(inner, held)} FROM {text(relation)} {alias})"
    label, found = Column(draw.fresh("c"), "STRING"), Column(draw.fresh("c"), kind)
    nulls = draw.random.choice(("", "INCLUDE NULLS "))
    listed = f"{held[-2].name} AS one, {held[-1].name} AS two"
    columns = (*held[:-2], label, found)
    unpivot = f"UNPIVOT {nulls}({found.name} FOR {label.name} IN ({listed}))"
    return text.done(columns, f"(SELECT {names(columns)} FROM {source} {unpivot})")


def loose(draw: Draw, relation: Sql) -> Sql:
    """Aggregates whose result nothing further may depend on."""
    alias, text = draw.fresh("q"), Text()
    source, scope = text(relation), ordered(seen(relation, alias))
    keys = columns_of(draw, scope, draw.random.choice((0, 1, 1, 2)))
    chosen = [choose(draw, list(LOOSE), scope) for _ in range(draw.random.randint(1, 4))]
    results = [_filtered(draw, template, LOOSE[template], scope) for template in chosen]
    columns = fresh_columns(draw, keys + results)
    by = f" GROUP BY {text.all(keys)}" if keys else ""
    return text.done(columns, f"(SELECT {text.named(keys + results, columns)} FROM {source} {alias}{by})")
