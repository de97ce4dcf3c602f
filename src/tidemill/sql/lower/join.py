"""Joins of every kind, made of pairs and of marks."""

from dataclasses import replace

import msgspec

from tidemill.pipeline.errors import Refused
from tidemill.pipeline.plan import expression, node
from tidemill.pipeline.plan.expression import Call, Tree
from tidemill.sql.lower.builder import Builder, Rows
from tidemill.sql.lower.join_marks import marked, marked_null_aware, paired
from tidemill.sql.lower.join_pairs import pairs
from tidemill.sql.lower.join_sides import both
from tidemill.sql.lower.select import same
from tidemill.sql.lower.unique import is_unique
from tidemill.sql.relation import AnyRelation, AtMostOne, Join

OUTER = {"LeftOuter", "RightOuter", "FullOuter"}
MARKED = {"LeftSemi", "LeftAnti", "ExistenceJoin"}
SINGLE = "LeftSingle"


def lower_join(relation: AnyRelation, build: Builder) -> Rows | None:
    """Inner joins are pairs; outer ones have also the rows without a partner; others are rows by their mark.

    Where partners are all rows of equal key, a mark is kept for each key. With a further condition it is kept
    for each row, by the pairs.
    """
    if not isinstance(relation, Join):
        return None
    if relation.kind == SINGLE:
        return build.lower(_with_one_partner(build, relation))
    left, right = build.lower(relation.left), build.lower(relation.right)
    if relation.kind in {"Inner", "Cross"}:
        found = pairs(build, relation, left, right)
        return Rows(found.base, found.where, found.columns, relation.schema)
    if relation.kind in OUTER:
        return _outer(build, relation, left, right)
    if relation.kind in MARKED:
        return _by_mark(build, relation, left, right)
    raise Refused(
        f"a join of kind {relation.kind} is not supported yet in a view: write it with WHERE EXISTS"
    )


def _with_one_partner(build: Builder, relation: Join) -> Join:
    """A subquery that gives one value for each row: a row without partner has NULL, two are an error.

    Only those of the right count that a row of the left asks for.
    """
    if relation.condition is not None or not relation.keys:
        raise Refused(
            "a correlated subquery that gives one value, but neither by an aggregate nor by equality alone, "
            "is not supported yet in a view: write max() or min() of it"
        )
    right, theirs = relation.right, tuple(other for _, other in relation.keys)
    if not is_unique(right, theirs, build.catalog):
        swapped = tuple((other, one) for one, other in relation.keys)
        asked = Join(right.schema, relation.origin, "LeftSemi", right, relation.left, swapped, None)
        right = AtMostOne(right.schema, relation.origin, asked, theirs)
    return replace(relation, kind="LeftOuter", right=right)


def _by_mark(build: Builder, relation: Join, left: Rows, right: Rows) -> Rows:
    """The left's rows that have a partner, or those that have none, or all with their mark."""
    if relation.condition is not None:
        rows = paired(build, left, pairs(build, relation, left, right))
    elif relation.null_aware:
        rows = marked_null_aware(build, left, right, relation.keys, relation.null_aware)
    else:
        rows = marked(build, left, right, relation.keys)
    *columns, mark = (one.tree for one in same(rows))
    match relation.kind:
        case "LeftSemi":
            return build.select(rows, mark, tuple(columns), relation.schema)
        case "LeftAnti":
            return build.select(rows, _not(mark), tuple(columns), relation.schema)
    return build.select(rows, None, (*columns, mark), relation.schema)


def _outer(build: Builder, relation: Join, left: Rows, right: Rows) -> Rows:
    """The pairs, and the rows of a side that are in none, with NULLs for the columns of the other."""
    joined = build.all_of(build.put(pairs(build, relation, left, right)))
    columns = tuple(one.tree for one in same(joined))
    mine, theirs = columns[: len(left.columns)], columns[len(left.columns) :]
    parts = [joined]
    if relation.kind != "RightOuter":
        rows = _lonely(build, relation, left, right, joined)
        own = tuple(one.tree for one in same(rows))
        parts.append(build.select(rows, None, (*own, *map(_null, theirs)), relation.schema))
    if relation.kind != "LeftOuter":
        flipped = build.select(joined, None, (*theirs, *mine), both(right.schema, left.schema))
        swapped = replace(relation, keys=tuple((other, one) for one, other in relation.keys))
        rows = _lonely(build, swapped, right, left, flipped)
        own = tuple(one.tree for one in same(rows))
        parts.append(build.select(rows, None, (*map(_null, mine), *own), relation.schema))
    inputs = tuple(map(build.put, parts))
    spread = frozenset.intersection(*map(build.spread, inputs))
    return build.all_of(build.add(node.Union(inputs, relation.schema), spread))


def _lonely(build: Builder, relation: Join, rows: Rows, others: Rows, joined: Rows) -> Rows:
    """The rows that have no partner among the others, hence are in no pair."""
    if relation.condition is not None:
        found = paired(build, rows, joined)
    else:
        found = marked(build, rows, others, relation.keys)
    *columns, mark = (one.tree for one in same(found))
    return build.select(found, _not(mark), tuple(columns), rows.schema)


def _not(mark: Tree) -> Tree:
    return Call("boolean", "Not", (mark,))


def _null(column: Tree) -> Tree:
    return msgspec.structs.replace(expression.literal(None, column.type), text="NULL")
