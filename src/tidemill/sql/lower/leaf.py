"""A table or view of the pipeline, where a query starts."""

from tidemill.sql.lower.builder import Builder, Rows
from tidemill.sql.relation import AnyRelation, Leaf


def lower_leaf(relation: AnyRelation, build: Builder) -> Rows | None:
    """A table becomes its source, which all views share; a view is read where it is kept."""
    if not isinstance(relation, Leaf):
        return None
    view = build.catalog.views.get(relation.name)
    if view:
        return build.all_of(view.position)
    table = build.catalog.tables[relation.name]
    if table.position is not None:
        return build.all_of(table.position)
    shard_key = build.shard_keys[relation.name]
    build.sources[relation.name] = build.add(table.source(relation.name, shard_key))
    return build.all_of(build.sources[relation.name])
