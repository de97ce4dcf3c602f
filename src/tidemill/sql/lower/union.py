"""UNION ALL."""

from tidemill.pipeline.plan import node
from tidemill.sql.lower.builder import Builder, Rows
from tidemill.sql.relation import AnyRelation, Union


def lower_union(relation: AnyRelation, build: Builder) -> Rows | None:
    """All rows of all branches. They stay spread as they were where all branches agree on it."""
    if not isinstance(relation, Union):
        return None
    inputs = tuple(build.put(build.lower(child)) for child in relation.children)
    spread = frozenset.intersection(*map(build.spread, inputs))
    return build.all_of(build.add(node.Union(inputs, relation.schema), spread))
