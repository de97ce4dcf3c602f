"""Subqueries that stand for one value."""

import msgspec

from tidemill.pipeline.plan import node
from tidemill.sql.lower.builder import Builder, Rows
from tidemill.sql.lower.join_sides import side
from tidemill.sql.relation import AnyRelation, AtMostOne


def lower_at_most_one(relation: AnyRelation, build: Builder) -> Rows | None:
    """All rows, or those of equal keys, in one place, where they are counted."""
    if not isinstance(relation, AtMostOne):
        return None
    counted = side(build, build.lower(relation.child), relation.keys)
    position = build.exchanged(build.put(counted.rows), counted.key)
    schema = build.nodes[position].spark_schema
    checked = node.AtMostOne((position,), schema, key=counted.key or msgspec.UNSET)
    rows = build.all_of(build.add(checked, build.spread(position)))
    return build.select(rows, None, rows.columns[: counted.width], relation.schema)
