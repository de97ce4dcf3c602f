"""What depends on the order of rows: ORDER BY with LIMIT, and the first rows of groups."""

from collections.abc import Sequence

from tidemill.pipeline.plan import node
from tidemill.pipeline.plan.node import OrderColumn
from tidemill.sql.lower.builder import Builder, Rows
from tidemill.sql.lower.join_sides import labelled
from tidemill.sql.lower.select import computed, same
from tidemill.sql.relation import AnyRelation, Order, Scalar, TopK


def lower_top_k(relation: AnyRelation, build: Builder) -> Rows | None:
    """The first rows of each group; of all rows, first those of each shard, so that they stay spread."""
    if not isinstance(relation, TopK):
        return None
    rows, width = build.lower(relation.child), len(relation.schema["fields"])
    rows, places = with_columns(build, rows, [*relation.keys, *(part.by for part in relation.order)])
    keys, order = places[: len(relation.keys)], ordered(places[len(relation.keys) :], relation.order)
    if not keys:
        shards = labelled(build, rows)
        last = len(shards.columns) - 1
        position = build.exchanged(build.put(shards), (last,))
        schema = build.nodes[position].spark_schema
        first = node.TopK((position,), schema, (last,), order, relation.ranking, relation.count)
        rows = build.all_of(build.add(first, [(last,)]))
    position, keys = grouped(build, rows, keys)
    schema = build.nodes[position].spark_schema
    top = node.TopK((position,), schema, keys, order, relation.ranking, relation.count, relation.offset)
    held = build.all_of(build.add(top, build.spread(position)))
    return Rows(held.base, None, held.columns[:width], relation.schema)


def grouped(build: Builder, rows: Rows, keys: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """A node with the rows spread by the keys, and the keys in the order in which it is spread by them."""
    position = build.put(rows)
    wanted = sorted(set(keys))
    spread = sorted(build.spread(position))
    keys = next((key for key in spread if sorted(key) == wanted), tuple(wanted))
    return build.exchanged(position, keys), keys


def with_columns(build: Builder, rows: Rows, scalars: Sequence[Scalar]) -> tuple[Rows, tuple[int, ...]]:
    """The rows with further columns, so that there is one for each expression; and which it is."""
    columns = [*same(rows)]
    fields = list(rows.schema["fields"])
    for scalar in scalars:
        if scalar not in columns:
            kind = scalar.tree.spark_type
            fields.append({"name": f"value{len(columns)}", "type": kind, "nullable": True, "metadata": {}})
            columns.append(scalar)
    places = tuple(columns.index(scalar) for scalar in scalars)
    if len(columns) > len(rows.columns):
        rows = computed(build, rows, tuple(columns), {"type": "struct", "fields": fields})
    return rows, places


def ordered(places: Sequence[int], order: Sequence[Order]) -> tuple[OrderColumn, ...]:
    return tuple(
        OrderColumn(place, part.descending, part.nulls_last)
        for place, part in zip(places, order, strict=True)
    )
