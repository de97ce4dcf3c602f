"""Rows of one side of a join, marked by whether the other side has a partner for them."""

from itertools import product
from typing import Any

from tidemill.pipeline.plan import expression, node
from tidemill.pipeline.plan.expression import Call, Column
from tidemill.pipeline.types import from_spark
from tidemill.sql.lower.builder import Builder, Rows
from tidemill.sql.lower.join_sides import Side, arranged, on_all_shards, side, sides, tell_apart
from tidemill.sql.lower.select import same
from tidemill.sql.relation import Keys, Scalar


def marked(build: Builder, left: Rows, right: Rows, keys: Keys) -> Rows:
    """The left's columns, then whether the right has a row with the same key."""
    if tell_apart(keys):
        one, other = sides(build, left, right, keys)
        return _mark(build, one, _spread_keys(build, other))
    # Nothing spreads the rows of the left; but then of the right only few different rows matter.
    position = _spread_keys(build, side(build, right, [pair[1] for pair in keys]))
    schema = build.nodes[position].spark_schema
    few = build.all_of(build.add(node.Distinct((position,), schema), build.spread(position)))
    pairs = zip((pair[0] for pair in keys), same(few), strict=True)
    one, other = on_all_shards(build, left, few, tuple(pairs))
    return _mark(build, one, _spread_keys(build, other))


def marked_null_aware(build: Builder, left: Rows, right: Rows, keys: Keys, unsure: Keys) -> Rows:
    """As `marked`; of the `unsure` keys a NULL on either side equals anything, as NOT IN has it.

    That can be so in several ways, each of which is a question of equal keys.
    """
    rows, width = left, len(left.columns)
    for ways in product(*(_ways(left, right, pair) for pair in unsure)):
        rows = marked(build, rows, right, (*keys, *ways))
    columns = tuple(one.tree for one in same(rows))
    found = columns[width]
    for mark in columns[width + 1 :]:
        found = Call("boolean", "Or", (found, mark))
    return build.select(rows, None, (*columns[:width], found), with_mark(left.schema))


def _ways(left: Rows, right: Rows, pair: tuple[Scalar, Scalar]) -> list[tuple[Scalar, Scalar]]:
    """How the two may not differ: they are equal, or one of them is NULL."""
    one, other = pair
    found = [pair]
    if _may_be_null(left.schema, one):
        found.append((_missing(one), _always()))
    if _may_be_null(right.schema, other):
        found.append((_always(), _missing(other)))
    return found


def _may_be_null(schema: Any, key: Scalar) -> bool:
    return not isinstance(key.tree, Column) or bool(schema["fields"][key.tree.index]["nullable"])


def _missing(key: Scalar) -> Scalar:
    tree = Call("boolean", "IsNull", (key.tree,))
    return Scalar(tree, key.unproved, lambda: f"({key.sql}) IS NULL")


def _always() -> Scalar:
    return Scalar(expression.literal(True, from_spark("boolean")), None, lambda: "true")


def paired(build: Builder, rows: Rows, pairs: Rows) -> Rows:
    """The rows, then whether they are in any of the pairs, whose first columns are theirs."""
    every = tuple(range(len(rows.columns)))
    columns = tuple(one.tree for one in same(pairs)[: len(every)])
    partners = build.exchanged(build.put(build.select(pairs, None, columns, rows.schema)), every)
    return _mark(build, Side(rows, every, len(every)), partners, null_safe=True)


def _spread_keys(build: Builder, one: Side) -> int:
    """Just the key of each row, where its owner is."""
    columns = tuple(same(one.rows)[index].tree for index in one.key)
    schema = {"type": "struct", "fields": [one.rows.schema["fields"][index] for index in one.key]}
    position = build.put(build.select(one.rows, None, columns, schema))
    return build.exchanged(position, tuple(range(len(columns))))


def _mark(build: Builder, one: Side, keys: int, *, null_safe: bool = False) -> Rows:
    one = arranged(build, one)
    base = build.nodes[one.rows.base].spark_schema
    spread = build.spread(one.rows.base)
    position = build.add(node.Mark((one.rows.base, keys), with_mark(base), null_safe), spread)
    columns = (*one.output(), Column("boolean", len(base["fields"])))
    schema = {"type": "struct", "fields": one.rows.schema["fields"][: one.width]}
    return Rows(position, one.rows.where, columns, with_mark(schema))


def with_mark(schema: Any) -> Any:
    mark = {"name": "exists", "type": "boolean", "nullable": False, "metadata": {}}
    return {"type": "struct", "fields": [*schema["fields"], mark]}
