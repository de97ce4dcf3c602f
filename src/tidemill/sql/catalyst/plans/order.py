"""ORDER BY with LIMIT and OFFSET, and the first rows of each group."""

import math
from typing import Any

from py4j.java_gateway import JavaObject

from tidemill.pipeline.errors import Refused
from tidemill.sql import relation
from tidemill.sql.catalyst.expression import Scope, items, kind_of
from tidemill.sql.catalyst.origin import origin_of, place_of_word, words_of, written
from tidemill.sql.catalyst.plans.reader import Reader
from tidemill.sql.catalyst.plans.refusal import refusal
from tidemill.sql.catalyst.plans.schema import attributes, same, schema_of
from tidemill.sql.catalyst.plans.subquery import Input, input_of, with_values
from tidemill.sql.relation import RANKINGS, AnyRelation

LIMITS = {"GlobalLimit", "LocalLimit"}


def check_unordered(analyzed: JavaObject) -> None:
    """Raise `Refused` for a query that asks for its rows in an order.

    Below, a sort means nothing: Catalyst has left it of a LIMIT that takes all rows there can be.
    """
    while kind_of(analyzed) in {"Project", "SubqueryAlias"}:
        analyzed = analyzed.child()
    if kind_of(analyzed) == "Sort":
        raise refusal(analyzed, "Sort")


def read_limit(reader: Reader, plan: JavaObject) -> AnyRelation:
    """Limits, offsets and projections above a sort. Raises `Refused` where they take any rows.

    Of rows that are all the same they may: Catalyst itself asks for one of them, to know if there are any.
    """
    above, node = [], plan
    while kind_of(node) in {*LIMITS, "Offset", "Project"} and not _is_constant(node):
        above.append(node)
        node = node.child()
    constant = _is_constant(node)
    if not constant and (kind_of(node) != "Sort" or not getattr(node, "global")()):
        sampled = None if written(plan).upper().startswith("LIMIT") else place_of_word("TABLESAMPLE", plan)
        raise Refused(
            f"{'TABLESAMPLE' if sampled else 'LIMIT or OFFSET'} without ORDER BY takes any rows, each time "
            "others: say in which order",
            place=sampled,
        )
    start, end = 0, math.inf
    for one in reversed(above):
        if kind_of(one) == "Offset":
            start += one.offsetExpr().value()
        elif kind_of(one) in LIMITS:
            end = min(end, start + one.limitExpr().value())
    if end == math.inf:
        raise Refused("OFFSET without LIMIT is not supported yet in a view: skip when you read it")
    parts = [] if constant else items(node.order())
    rows = with_values(reader, input_of(reader, node if constant else node.child()), parts)
    order, origin = read_order(reader, parts, rows.scope, rows.schema), words_of(*parts)
    found: AnyRelation = relation.TopK(
        rows.schema, origin, rows.rows, (), order, "row_number", int(end), start
    )
    if rows.scope.subqueries:
        found = relation.Project(schema_of(node), origin, found, same(schema_of(node)))
    for one in reversed(above):
        if kind_of(one) == "Project":
            found = _project(reader, one, found)
    return found


def _is_constant(plan: JavaObject) -> bool:
    """Whether it makes the same of each row."""
    return kind_of(plan) == "Project" and all(
        kind_of(column) == "Alias" and column.child().foldable() for column in items(plan.projectList())
    )


def read_group_limit(reader: Reader, plan: JavaObject) -> AnyRelation:
    """What Catalyst puts below a window whose rank is compared with a constant."""
    child, scope, schema = plan.child(), attributes(plan.child()), schema_of(plan.child())
    return relation.TopK(
        schema_of(plan),
        origin_of(plan),
        reader.read(child),
        tuple(reader.scalar(key, scope, schema) for key in items(plan.partitionSpec())),
        read_order(reader, items(plan.orderSpec()), scope, schema),
        RANKINGS[kind_of(plan.rankLikeFunction())],
        plan.limit(),
    )


def read_order(
    reader: Reader, parts: list[JavaObject], scope: Scope, schema: Any
) -> tuple[relation.Order, ...]:
    """The parts of an ORDER BY. Raises `Refused` for one that has no order of ours."""
    return tuple(
        relation.Order(
            reader.scalar(part.child(), scope, schema),
            kind_of(part.direction()) == "Descending",
            kind_of(part.nullOrdering()) == "NullsLast",
        )
        for part in parts
    )


def _project(reader: Reader, plan: JavaObject, child: AnyRelation) -> relation.Project:
    nodes, below = items(plan.projectList()), plan.child()
    rows = with_values(reader, Input(child, attributes(below), schema_of(below)), nodes)
    columns = tuple(reader.scalar(node, rows.scope, rows.schema) for node in nodes)
    return relation.Project(schema_of(plan), origin_of(plan), rows.rows, columns)
