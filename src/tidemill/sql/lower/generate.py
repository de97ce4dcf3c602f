"""Functions that make rows."""

from collections.abc import Iterator

from tidemill.pipeline.plan import node
from tidemill.sql.lower.builder import Builder, Rows
from tidemill.sql.lower.select import only, same
from tidemill.sql.relation import AnyRelation, Generate, Replicate


def lower_generate(relation: AnyRelation, build: Builder) -> Rows | None:
    """The carried columns and the collection as columns, in Spark if it is not proved; then its elements."""
    if not isinstance(relation, Generate):
        return None
    rows = build.lower(relation.child)
    carried = [same(rows)[index] for index in relation.carried]
    position = build.put(only(build, rows, [*carried, relation.collection]))
    generate = node.Generate((position,), relation.schema, relation.function, relation.outer)
    return build.all_of(build.add(generate, _spread_by_first(build, position, len(carried))))


def lower_replicate(relation: AnyRelation, build: Builder) -> Rows | None:
    """Rows that are there so many times are rows of that weight. Columns asked for twice are kept once."""
    if not isinstance(relation, Replicate):
        return None
    asked = relation.columns
    columns = [scalar for at, scalar in enumerate(asked) if scalar not in asked[:at]]
    position = build.put(only(build, build.lower(relation.child), [*columns, relation.count]))
    fields = build.nodes[position].spark_schema["fields"][:-1]
    replicate = node.Replicate((position,), {"type": "struct", "fields": fields})
    held = build.all_of(build.add(replicate, _spread_by_first(build, position, len(columns))))
    trees = tuple(held.columns[columns.index(scalar)] for scalar in asked)
    return build.select(held, None, trees, relation.schema)


def _spread_by_first(build: Builder, position: int, count: int) -> Iterator[tuple[int, ...]]:
    """The keys by which a node's rows are spread and which lie in its first columns."""
    return (key for key in build.spread(position) if all(index < count for index in key))
