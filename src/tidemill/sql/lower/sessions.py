"""GROUP BY session_window(…): what each row is told before it is grouped."""

from typing import Any

import pyarrow as pa

from tidemill.pipeline.errors import Refused
from tidemill.pipeline.plan import node
from tidemill.pipeline.plan.expression import Call, Column, Tree, literal
from tidemill.sql.lower.builder import Builder, Rows
from tidemill.sql.relation import AnyRelation, Scalar, Sessions

NAMES = ("start", "end")


def lower_sessions(relation: AnyRelation, build: Builder) -> Rows | None:
    """The rows with start and end apart, by which they are kept in order; put together again after."""
    if not isinstance(relation, Sessions):
        return None
    rows, at, fields = build.lower(relation.child), relation.session, relation.schema["fields"]
    others = [index for index in range(len(fields)) if index != at]
    kind = fields[at]["type"]
    columns = (*(rows.columns[index] for index in others), *_ends(rows.columns[at], kind["fields"]))
    schema = {"type": "struct", "fields": [*(fields[index] for index in others), *kind["fields"]]}
    keys = tuple(others.index(_column(key)) for key in relation.keys)
    position = build.exchanged(build.put(Rows(rows.base, rows.where, columns, schema)), keys)
    start, end = len(others), len(others) + 1
    sessions = build.add(node.Sessions((position,), schema, keys, start, end), [keys])
    held = build.all_of(sessions).columns
    session = Call(kind, "CreateNamedStruct", (_name(0), held[start], _name(1), held[end]))
    told = (session if index == at else held[others.index(index)] for index in range(len(fields)))
    return Rows(sessions, None, tuple(told), relation.schema)


def _ends(session: Tree, fields: Any) -> tuple[Tree, ...]:
    """Start and end of what a row spans, without a struct where one was only just made of them."""
    if isinstance(session, Call) and session.function == "CreateNamedStruct":
        return session.arguments[1::2]
    return tuple(
        Call(field["type"], "GetStructField", (session,), {"ordinal": str(index)})
        for index, field in enumerate(fields)
    )


def _column(key: Scalar) -> int:
    if not isinstance(key.tree, Column):
        raise Refused(f"{key.tree} beside session_window: compute it in a view of its own")
    return key.tree.index


def _name(index: int) -> Tree:
    return literal(NAMES[index], pa.large_string())
