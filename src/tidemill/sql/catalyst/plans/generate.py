"""Functions that make rows: explode, posexplode, inline, stack, and LATERAL VIEW with any of them."""

from typing import Any

import msgspec
from py4j.java_gateway import JavaObject

from tidemill.pipeline import types
from tidemill.pipeline.errors import Refused
from tidemill.pipeline.plan import expression
from tidemill.sql import relation
from tidemill.sql.catalyst.expression import items, kind_of, place_of
from tidemill.sql.catalyst.origin import words_of
from tidemill.sql.catalyst.plans.reader import Reader
from tidemill.sql.catalyst.plans.schema import attributes, same, schema_of
from tidemill.sql.catalyst.plans.subquery import input_of, with_values
from tidemill.sql.relation import Scalar

INSTEAD = {
    "JsonTuple": "write get_json_object for each column",
    "VariantExplode": "write explode, over an array that from_json makes",
}
OTHERWISE = "make the rows before they are inserted"


def read_generate(reader: Reader, plan: JavaObject) -> relation.AnyRelation:
    """By the function: the elements of a collection, several rows of each, or each row several times."""
    generator, scope = plan.generator(), attributes(plan.child())
    kind, origin = kind_of(generator), words_of(generator)
    required = [scope.attributes[one.exprId().id()] for one in items(plan.requiredChildOutput())]
    if kind not in {"Explode", "PosExplode", "Inline", "Stack", "ReplicateRows"}:
        name = generator.name() if kind == "PythonUDTF" else generator.prettyName()
        raise Refused(
            f"{name}, which makes rows, is not supported yet in a view: {INSTEAD.get(kind, OTHERWISE)}",
            place=place_of(generator),
        )
    nodes = items(generator.children())
    rows = with_values(reader, input_of(reader, plan.child()), nodes)
    carried = same(rows.schema, required)
    first, *others = (reader.scalar(node, rows.scope, rows.schema) for node in nodes)
    whole = schema_of(plan)
    match kind:
        case "Stack":
            return relation.Expand(whole, origin, rows.rows, _stacked(whole, carried, others))
        case "ReplicateRows":  # of EXCEPT ALL and INTERSECT ALL
            return relation.Replicate(whole, origin, rows.rows, (*carried, *others), first)
    return relation.Generate(whole, origin, rows.rows, tuple(required), kind, first, bool(plan.outer()))


def _stacked(
    schema: Any, carried: tuple[Scalar, ...], values: list[Scalar]
) -> tuple[tuple[Scalar, ...], ...]:
    """The rows of a stack; values that are lacking in the last are NULL."""
    kinds = [types.from_spark(field["type"]) for field in schema["fields"][len(carried) :]]
    nulls = (msgspec.structs.replace(expression.literal(None, kind), text="NULL") for kind in kinds)
    nothing = [Scalar(null, None, lambda: "NULL") for null in nulls]
    rows = (values[start : start + len(kinds)] for start in range(0, len(values), len(kinds)))
    return tuple((*carried, *row, *nothing[len(row) :]) for row in rows)
