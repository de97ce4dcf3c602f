"""Projections and filters."""

from typing import Any

from tidemill.pipeline.plan.expression import Column
from tidemill.pipeline.plan.node import SparkSelect
from tidemill.sql.lower.builder import Builder, Rows
from tidemill.sql.relation import AnyRelation, Filter, Project, Scalar


def lower_project(relation: AnyRelation, build: Builder) -> Rows | None:
    """Waits to be fused with what comes next; with a function that is not proved, it runs in Spark.

    There a filter below goes along, since leaving for Spark is what costs.
    """
    if not isinstance(relation, Project):
        return None
    child, columns = relation.child, relation.columns
    leaves = any(column.unproved for column in columns)
    if isinstance(child, Filter) and (leaves or child.condition.unproved):
        return in_spark(build, build.lower(child.child), child.condition, columns, relation.schema)
    rows = build.lower(child)
    if leaves:
        return in_spark(build, rows, None, columns, relation.schema)
    return build.select(rows, None, tuple(column.tree for column in columns), relation.schema)


def lower_filter(relation: AnyRelation, build: Builder) -> Rows | None:
    """Waits to be fused likewise."""
    if not isinstance(relation, Filter):
        return None
    rows = build.lower(relation.child)
    if relation.condition.unproved:
        return in_spark(build, rows, relation.condition, None, relation.schema)
    columns = tuple(Column(tree.spark_type, index) for index, tree in enumerate(rows.columns))
    return build.select(rows, relation.condition.tree, columns, relation.schema)


def in_spark(
    build: Builder, rows: Rows, where: Scalar | None, columns: tuple[Scalar, ...] | None, schema: Any
) -> Rows:
    """A select that Spark computes; without `columns`, of all columns of the rows."""
    position = build.put(rows)
    texts = (
        [f"c{index}" for index in range(len(rows.columns))]
        if columns is None
        else [one.sql for one in columns]
    )
    node = SparkSelect((position,), schema, where.sql if where else None, tuple(texts))
    return build.all_of(build.add(node))
