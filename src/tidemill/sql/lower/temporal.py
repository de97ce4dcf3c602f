"""WHERE at > now() - …: rows that come and go with the step's clock."""

from collections.abc import Sequence

from tidemill.pipeline.plan import node
from tidemill.pipeline.plan.expression import Column, columns_of, shift
from tidemill.pipeline.plan.node import TemporalCondition
from tidemill.sql.lower.builder import Builder, Rows
from tidemill.sql.lower.select import computed, same
from tidemill.sql.relation import AnyRelation, Project, Temporal


def lower_temporal(relation: AnyRelation, build: Builder) -> Rows | None:
    """What is compared becomes a column, if it is none yet, and goes again after."""
    if isinstance(relation, Temporal):
        rows = build.lower(relation.child)
        return _filtered(build, relation, rows, range(len(rows.columns)))
    if not isinstance(relation, Project) or not isinstance(relation.child, Temporal):
        return None
    if any(column.unproved for column in relation.columns):
        return None  # Spark is told of columns by their position
    trees = [column.tree for column in relation.columns]
    needed = sorted(set[int]().union(*map(columns_of, trees)))
    rows = _filtered(build, relation.child, build.lower(relation.child.child), needed)
    places = {index: place for place, index in enumerate(needed)}
    return build.select(rows, None, tuple(shift(tree, places) for tree in trees), relation.schema)


def _filtered(build: Builder, relation: Temporal, rows: Rows, needed: Sequence[int]) -> Rows:
    """The rows that pass, of which only the needed columns are kept."""
    columns = [same(rows)[index] for index in needed]
    fields = [rows.schema["fields"][index] for index in needed]
    schema = {"type": "struct", "fields": list(fields)}
    conditions = []
    for operand, compare, clock in relation.conditions:
        if operand not in columns:
            columns.append(operand)
            name = f"compared{len(columns) - len(needed)}"
            fields.append({"name": name, "type": operand.tree.spark_type, "nullable": True, "metadata": {}})
        conditions.append(TemporalCondition(columns.index(operand), compare, clock))
    compared = {"type": "struct", "fields": fields}
    position = build.put(computed(build, rows, tuple(columns), compared))
    spread, origins = build.spread(position), (relation.origin,)
    temporal = build.add(node.Temporal((position,), compared, tuple(conditions)), spread, origins)
    kept = tuple(Column(column.tree.spark_type, at) for at, column in enumerate(columns[: len(needed)]))
    return Rows(temporal, None, kept, schema)
