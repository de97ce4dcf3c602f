"""CREATE RECURSIVE VIEW: the query of a view that refers to itself, as a loop."""

from dataclasses import fields, replace
from typing import Any, TypeVar

from tidemill.pipeline import types
from tidemill.pipeline.errors import Refused
from tidemill.sql.relation import Again, AnyRelation, Leaf, Loop, Relation
from tidemill.sql.statements import CreateRecursiveView

LEVELS = 100
"""So many iterations a recursive view may take, unless it says otherwise."""

T = TypeVar("T")


def fixed_point(query: AnyRelation, view: CreateRecursiveView, columns: Any) -> Loop:
    """The loop whose body is the query, with the declared columns. Raises `Refused` if types differ."""
    found, declared = query.schema["fields"], columns["fields"]
    if len(found) != len(declared):
        raise Refused(f"{len(declared)} columns are declared, and the query gives {len(found)}")
    for one, other in zip(declared, found, strict=True):
        kinds = [types.sql_name(types.from_spark(field["type"])) for field in (one, other)]
        if kinds[0] != kinds[1]:
            raise Refused(
                f"column {one['name']} is declared as {kinds[0].upper()}, and the query gives "
                f"{kinds[1].upper()}: CAST it"
            )
    schema = {"type": "struct", "fields": [{**field, "nullable": True} for field in declared]}
    body = _referring(query, view.name)
    return Loop(schema, query.origin, view.name, body, view.levels or LEVELS)


def _referring(value: T, name: str) -> T:
    """The relation with a reference to the loop in place of the leaf of that name."""
    if isinstance(value, Leaf) and value.name == name:
        return Again(value.schema, value.origin, name)  # type: ignore[return-value]
    if isinstance(value, tuple):
        return tuple(_referring(one, name) for one in value)  # type: ignore[return-value]
    if isinstance(value, Relation):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return replace(value, **{key: _referring(part, name) for key, part in parts.items()})
    return value
