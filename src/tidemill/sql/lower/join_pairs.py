"""Inner joins: pairs of rows with equal keys for which a condition is true."""

from typing import Any

from tidemill.pipeline.plan import node
from tidemill.pipeline.plan.expression import Tree, shift
from tidemill.sql.lower.builder import Builder, Rows, conjunction, conjuncts
from tidemill.sql.lower.join_bounds import bounds_of, compared, pairs_of
from tidemill.sql.lower.join_sides import Side, arranged, both, on_all_shards, presence, sides, tell_apart
from tidemill.sql.lower.select import in_spark, same
from tidemill.sql.relation import Aggregate, AnyRelation, AtMostOne, Filter, Join, Keys, Project


def pairs(build: Builder, relation: Join, left: Rows, right: Rows) -> Rows:
    """Both sides arranged by their keys, and the pairs of rows; further conditions are tested on the pairs.

    Without a key that tells rows apart, a side of at most one row is brought to all shards, where the rows of
    the other lie; of two others, all rows meet in one place.
    """
    keys, several = relation.keys, compared(relation, len(left.columns))
    bounds = pairs_of(several)
    if not tell_apart(keys) and is_single(relation.right):
        one, other = on_all_shards(build, left, right, keys, bounds)
    elif not tell_apart(keys) and is_single(relation.left):
        other, one = on_all_shards(build, right, left, _swapped(keys), _swapped(bounds))
    else:
        one, other = sides(build, left, right, keys, bounds)
    schema = both(left.schema, right.schema)
    one, other = arranged(build, one), arranged(build, other)
    width = len(build.nodes[one.rows.base].spark_schema["fields"])
    columns = one.output() + other.output(width)
    proved = relation.condition is not None and not relation.condition.unproved
    condition = _tests(one, other, width)
    if relation.condition and proved:
        places = {index: tree.index for index, tree in enumerate(columns)}
        condition = conjunction(condition, shift(relation.condition.tree, places))
    inputs = (one.rows.base, other.rows.base)
    joined = node.Join(inputs, _both(build, one, other), condition, bounds_of(build, one, other, several))
    position = build.add(joined, [one.key, tuple(index + width for index in other.key)])
    rows = Rows(position, None, columns, schema)
    if relation.condition and not proved:
        return in_spark(build, rows, relation.condition, same(rows), schema)
    return rows


def _swapped(keys: Keys) -> Keys:
    return tuple((other, one) for one, other in keys)


def is_single(relation: AnyRelation) -> bool:
    """Whether it has at most one row by what it is: made of an aggregate of all rows."""
    match relation:
        case Project(child=child) | Filter(child=child):
            return is_single(child)
        case Aggregate(keys=keys):
            return not keys
        case AtMostOne(keys=()):
            return True
    return False


def _tests(left: Side, right: Side, width: int) -> Tree | None:
    """What is left to test of sides that are tables' own rows; that the key is not NULL, the join sees to."""
    found: Tree | None = None
    for side, after in ((left, 0), (right, width)):
        for part in conjuncts(side.rows.where):
            if (index := presence(part)) is not None and index not in side.key:
                found = conjunction(found, shift(part, {index: index + after}))
    return found


def _both(build: Builder, left: Side, right: Side) -> Any:
    one, other = (build.nodes[side.rows.base].spark_schema for side in (left, right))
    return both(one, other)
