"""Subqueries that stand for one value."""

from tidemill.pipeline.plan import node
from tidemill.sql.lower.builder import Builder, Rows
from tidemill.sql.relation import AnyRelation, AtMostOne


def lower_at_most_one(relation: AnyRelation, build: Builder) -> Rows | None:
    """All rows in one place, where they are counted."""
    if not isinstance(relation, AtMostOne):
        return None
    position = build.exchanged(build.put(build.lower(relation.child)), ())
    return build.all_of(build.add(node.AtMostOne((position,), relation.schema), build.spread(position)))
