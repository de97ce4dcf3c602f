"""Functions that make rows: explode, posexplode, inline, stack, and LATERAL VIEW with any of them."""

from typing import Any

import msgspec
from py4j.java_gateway import JavaObject

from tidemill.pipeline import types
from tidemill.pipeline.errors import Refused
from tidemill.pipeline.plan import expression
from tidemill.pipeline.plan.expression import Column
from tidemill.sql import relation
from tidemill.sql.catalyst.expression import items, kind_of, place_of
from tidemill.sql.catalyst.plans.reader import Reader
from tidemill.sql.catalyst.plans.schema import attributes, schema_of
from tidemill.sql.relation import Scalar

INSTEAD = {"JsonTuple": "get_json_object for each column"}


def read_generate(reader: Reader, plan: JavaObject) -> relation.AnyRelation:
    """By the function: the elements of a collection, several rows of each, or each row several times."""
    child, generator = plan.child(), plan.generator()
    scope, schema = attributes(child), schema_of(child)
    kind, place = kind_of(generator), place_of(generator) or place_of(plan)
    required = [scope.attributes[one.exprId().id()] for one in items(plan.requiredChildOutput())]
    carried = tuple(
        Scalar(Column(schema["fields"][index]["type"], index), None, lambda: "") for index in required
    )
    if kind not in {"Explode", "PosExplode", "Inline", "Stack", "ReplicateRows"}:
        instead = INSTEAD.get(kind, "explode or stack")
        name = generator.name() if kind == "PythonUDTF" else generator.prettyName()
        raise Refused(f"{place}{name}, which makes rows, is not supported yet in a view: write {instead}")
    first, *others = (reader.scalar(node, scope, schema) for node in items(generator.children()))
    whole, read = schema_of(plan), reader.read(child)
    match kind:
        case "Stack":
            return relation.Expand(whole, place, read, _stacked(whole, carried, others))
        case "ReplicateRows":  # of EXCEPT ALL and INTERSECT ALL
            return relation.Replicate(whole, place, read, (*carried, *others), first)
    return relation.Generate(whole, place, read, tuple(required), kind, first, bool(plan.outer()))


def _stacked(
    schema: Any, carried: tuple[Scalar, ...], values: list[Scalar]
) -> tuple[tuple[Scalar, ...], ...]:
    """The rows of a stack; values that are lacking in the last are NULL."""
    kinds = [types.from_spark(field["type"]) for field in schema["fields"][len(carried) :]]
    nulls = (msgspec.structs.replace(expression.literal(None, kind), text="NULL") for kind in kinds)
    nothing = [Scalar(null, None, lambda: "NULL") for null in nulls]
    rows = (values[start : start + len(kinds)] for start in range(0, len(values), len(kinds)))
    return tuple((*carried, *row, *nothing[len(row) :]) for row in rows)
