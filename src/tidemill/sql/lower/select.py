"""Projections and filters."""

from collections.abc import Sequence
from typing import Any

from tidemill.pipeline.errors import Refused
from tidemill.pipeline.plan.expression import Column, Tree, columns_of, shift
from tidemill.pipeline.plan.node import SparkSelect
from tidemill.sql.lower.builder import Builder, Rows
from tidemill.sql.relation import AnyRelation, Filter, Project, Scalar


def lower_project(relation: AnyRelation, build: Builder) -> Rows | None:
    """Waits to be fused with what comes next; where a function is not proved, Spark computes the column.

    A filter below that Spark must compute goes along, since leaving for Spark is what costs.
    """
    if not isinstance(relation, Project):
        return None
    child, columns = relation.child, relation.columns
    if isinstance(child, Filter) and child.condition.unproved:
        return in_spark(build, build.lower(child.child), child.condition, columns, relation.schema)
    return computed(build, build.lower(child), columns, relation.schema)


def lower_filter(relation: AnyRelation, build: Builder) -> Rows | None:
    """Waits to be fused likewise."""
    if not isinstance(relation, Filter):
        return None
    rows = build.lower(relation.child)
    if relation.condition.unproved:
        return in_spark(build, rows, relation.condition, same(rows), relation.schema)
    columns = tuple(scalar.tree for scalar in same(rows))
    return build.select(rows, relation.condition.tree, columns, relation.schema)


def computed(build: Builder, rows: Rows, columns: tuple[Scalar, ...], schema: Any) -> Rows:
    """The rows with these columns: in Spark, if one of them is not proved."""
    if any(column.unproved for column in columns):
        return in_spark(build, rows, None, columns, schema)
    return build.select(rows, None, tuple(column.tree for column in columns), schema)


def only(build: Builder, rows: Rows, scalars: Sequence[Scalar]) -> Rows:
    """The rows with just these columns. What is computed is named by its place."""
    fields = [_field(rows, scalar.tree, index) for index, scalar in enumerate(scalars)]
    return computed(build, rows, tuple(scalars), {"type": "struct", "fields": fields})


def _field(rows: Rows, tree: Tree, index: int) -> dict[str, Any]:
    if isinstance(tree, Column):
        return {**rows.schema["fields"][tree.index]}
    return {"name": f"value{index}", "type": tree.spark_type, "nullable": True, "metadata": {}}


def in_spark(
    build: Builder, rows: Rows, where: Scalar | None, columns: tuple[Scalar, ...], schema: Any
) -> Rows:
    """A select of which Spark computes what is not proved; the rest is computed from what it hands back."""
    ours = [column.tree for column in columns if not column.unproved]
    if not all(isinstance(tree, Column) for tree in ours):
        needed = sorted(set[int]().union(*map(columns_of, ours)))
        handed = tuple(same(rows)[index] for index in needed) + tuple(one for one in columns if one.unproved)
        names = [rows.schema["fields"][index] for index in needed]
        names += [field for field, one in zip(schema["fields"], columns, strict=True) if one.unproved]
        back = in_spark(build, rows, where, handed, {"type": "struct", "fields": names})
        places = {index: place for place, index in enumerate(needed)}
        theirs = iter(back.columns[len(needed) :])
        trees = (next(theirs) if one.unproved else shift(one.tree, places) for one in columns)
        return build.select(back, None, tuple(trees), schema)
    _check_fields(rows.schema)
    _check_fields(schema)
    texts = tuple(column.reasoned_sql for column in columns)
    node = SparkSelect((build.put(rows),), schema, where.reasoned_sql if where else None, texts)
    return build.all_of(build.add(node))


def _check_fields(kind: Any) -> None:
    """Refuse a struct with two fields of one name within the type: rows go to Spark and back by name."""
    parts = [kind[one] for one in ("elementType", "keyType", "valueType") if one in kind]
    parts += [field["type"] for field in kind.get("fields", ())]
    for part in parts:
        if not isinstance(part, dict):
            continue
        names = [field["name"] for field in part.get("fields", ())]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise Refused(
                f"a struct with two fields {twice} beside a function that only Spark computes: "
                "name them apart, with named_struct('a', …, 'b', …)"
            )
        _check_fields(part)


def same(rows: Rows) -> tuple[Scalar, ...]:
    """The columns of the rows as they are."""
    columns = (Column(tree.spark_type, index) for index, tree in enumerate(rows.columns))
    return tuple(Scalar(column, None, lambda: "") for column in columns)
