"""Rows that a query states itself."""

from tidemill.pipeline.plan import node
from tidemill.sql.lower.builder import Builder, Rows
from tidemill.sql.relation import AnyRelation, Constant


def lower_constant(relation: AnyRelation, build: Builder) -> Rows | None:
    if not isinstance(relation, Constant):
        return None
    every = tuple(range(len(relation.schema["fields"])))
    # By no columns nothing counts as spread: every worker adds to the one group of an aggregation.
    spread = [every] if every else []
    return build.all_of(build.add(node.Constant((), relation.schema, relation.rows), spread))
