"""Schemas and scopes of plans, and conditions taken apart."""

import json
from collections.abc import Iterable
from typing import Any

from py4j.java_gateway import JavaObject

from tidemill.pipeline.plan.expression import Call, Column
from tidemill.sql.catalyst.expression import Scope, items, kind_of
from tidemill.sql.relation import Scalar


def schema_of(plan: JavaObject) -> Any:
    """The plan's schema, without what Spark notes about columns for itself."""
    schema = json.loads(plan.schema().json())
    for field in schema["fields"]:
        field["metadata"] = {
            name: value for name, value in field["metadata"].items() if name == "__COLLATIONS"
        }
    return schema


def attributes(plan: JavaObject) -> Scope:
    """The scope of an expression over the rows of a plan."""
    return Scope(positions(items(plan.output())))


def positions(nodes: list[JavaObject]) -> dict[int, int]:
    """Where each attribute stands. What is no attribute is nowhere."""
    return {
        node.exprId().id(): index
        for index, node in enumerate(nodes)
        if kind_of(node) in {"AttributeReference", "Alias"}
    }


def name_of(node: JavaObject) -> str:
    return str(node.name() if kind_of(node) == "AttributeReference" else node.sql())


def nullable(name: str, spark_type: Any) -> dict[str, Any]:
    return {"name": name, "type": spark_type, "nullable": True, "metadata": {}}


def same(schema: Any, positions: Iterable[int] | None = None) -> tuple[Scalar, ...]:
    """The columns of rows with that schema as they are: all, or those at some positions."""
    kinds = [field["type"] for field in schema["fields"]]
    chosen = range(len(kinds)) if positions is None else positions
    return tuple(Scalar(Column(kinds[index], index), None, lambda: "") for index in chosen)


def both(left: Any, right: Any) -> Any:
    return {"type": "struct", "fields": left["fields"] + right["fields"]}


def conjuncts(condition: JavaObject) -> list[JavaObject]:
    """The parts of a condition that must all be true, from left to right."""
    waiting = [condition]
    found: list[JavaObject] = []
    while waiting:
        node = waiting.pop(0)
        if kind_of(node) == "And":
            waiting[:0] = [node.left(), node.right()]
        else:
            found.append(node)
    return found


def both_true(scalars: list[Scalar]) -> Scalar | None:
    """One condition of several, evaluated from left to right."""
    if len(scalars) < 2:
        return scalars[0] if scalars else None
    tree = scalars[0].tree
    for scalar in scalars[1:]:
        tree = Call("boolean", "And", (tree, scalar.tree))
    why = next((scalar.unproved for scalar in scalars if scalar.unproved), None)
    return Scalar(tree, why, lambda: " AND ".join(f"({scalar.text()})" for scalar in scalars))
