"""Subqueries that give one value for all rows: each becomes a column of the rows that use it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from py4j.java_gateway import JavaObject

from tidemill.sql import relation
from tidemill.sql.catalyst.expression import Scope, items, kind_of
from tidemill.sql.catalyst.origin import words_of
from tidemill.sql.catalyst.plans.reader import Reader
from tidemill.sql.catalyst.plans.schema import attributes, both, both_true, schema_of
from tidemill.sql.catalyst.session import jvm
from tidemill.sql.relation import AnyRelation

LIMITS = {"GlobalLimit", "LocalLimit"}


@dataclass(frozen=True, slots=True)
class Input:
    """Rows, and where expressions over them find what they use."""

    rows: AnyRelation
    scope: Scope
    schema: Any


def uses_value(node: JavaObject) -> bool:
    """Whether the expression has such a subquery."""
    return next(_subqueries(node), None) is not None


def input_of(reader: Reader, plan: JavaObject) -> Input:
    """The rows of a plan, for expressions over them."""
    return Input(reader.read(plan), attributes(plan), schema_of(plan))


def with_values(reader: Reader, given: Input, nodes: Iterable[JavaObject]) -> Input:
    """The rows, then a column for each different subquery that the expressions use."""
    rows, schema, places = given.rows, given.schema, dict[int, int]()
    known: list[tuple[JavaObject, int]] = []
    for query in (query for node in nodes for query in _subqueries(node)):
        place = next((place for other, place in known if other.plan().sameResult(query.plan())), None)
        if place is None:
            place = len(schema["fields"])
            known.append((query, place))
            value = _value(reader, query)
            schema = both(schema, value.schema)
            kind = "LeftOuter" if isinstance(value, relation.AtMostOne) else "Inner"
            rows = relation.Join(schema, words_of(query), kind, rows, value, (), None)
        places[query.exprId().id()] = place
    return Input(rows, replace(given.scope, subqueries=places), schema)


def where_values(
    reader: Reader, rows: AnyRelation, plan: JavaObject, nodes: Sequence[JavaObject]
) -> AnyRelation:
    """The rows of a plan for which all expressions are true; each of those uses a subquery."""
    found = with_values(reader, Input(rows, attributes(plan), schema_of(plan)), nodes)
    condition = both_true([reader.scalar(node, found.scope, found.schema) for node in nodes])
    assert condition is not None
    joined, origin = found.rows, words_of(*nodes)
    if isinstance(joined, relation.Join) and joined.kind == "Inner":
        joined = replace(joined, condition=condition)  # so that it looks at a range of the rows only
    else:
        joined = relation.Filter(found.schema, origin, joined, condition)
    columns = tuple(reader.scalar(one, found.scope, found.schema) for one in items(plan.output()))
    return relation.Project(schema_of(plan), origin, joined, columns)


def without_unused(reader: Reader, plan: JavaObject) -> JavaObject:
    """A projection that uses such values, or of a filter that does, without the columns that neither uses.

    Catalyst leaves them where nothing is kept; but where a value may change, rows are.
    """
    below = plan.child()
    if kind_of(below) == "Filter" and uses_value(below.condition()):
        below = _with_child(reader, below, _narrow(reader, below.child(), [plan, below]))
    elif any(map(uses_value, items(plan.projectList()))):
        below = _narrow(reader, below, [plan])
    else:
        return plan
    return _with_child(reader, plan, below)


def _narrow(reader: Reader, plan: JavaObject, users: Sequence[JavaObject]) -> JavaObject:
    """The plan with only those columns that its users refer to."""
    used = [user.references() for user in users]
    kept = [one for one in items(plan.output()) if any(some.contains(one) for some in used)]
    project = jvm(reader.frames.spark).org.apache.spark.sql.catalyst.plans.logical.Project
    return project(_seq(reader, kept), plan)


def _with_child(reader: Reader, plan: JavaObject, child: JavaObject) -> JavaObject:
    return plan.withNewChildren(_seq(reader, [child]))


def _seq(reader: Reader, several: list[JavaObject]) -> JavaObject:
    return jvm(reader.frames.spark).org.apache.spark.api.python.PythonUtils.toSeq(several)


def _subqueries(node: JavaObject) -> Iterator[JavaObject]:
    """Those that do not depend on the row. What an aggregate function uses is another row's matter."""
    kind = kind_of(node)
    if kind == "ScalarSubquery" and node.outerAttrs().isEmpty():
        yield node
    if kind in {"ScalarSubquery", "AggregateExpression"}:
        return
    for child in items(node.children()):
        yield from _subqueries(child)


def _value(reader: Reader, query: JavaObject) -> AnyRelation:
    """A relation of one row; `AtMostOne` if there may be none, or more by mistake."""
    plan = query.plan()
    found = _distinct(reader, _below_limit(plan)) if _asks_for_any(plan) else reader.read(plan)
    return found if _has_one_row(found) else relation.AtMostOne(found.schema, words_of(query), found)


def _asks_for_any(plan: JavaObject) -> bool:
    """Whether it is LIMIT 1 of rows that are all the same: so Spark asks whether there is any."""
    below = _below_limit(plan)
    if kind_of(plan) not in LIMITS or kind_of(below) != "Project":
        return False
    return all(one.foldable() for one in _computed(below))


def _below_limit(plan: JavaObject) -> JavaObject:
    while kind_of(plan) in LIMITS and plan.limitExpr().value() == 1:
        plan = plan.child()
    return plan


def _distinct(reader: Reader, plan: JavaObject) -> AnyRelation:
    rows = reader.read(plan)
    keys = tuple(reader.scalar(one, attributes(plan), rows.schema) for one in items(plan.output()))
    return relation.Aggregate(rows.schema, rows.origin, rows, keys, (), keys, rows.schema)


def _computed(project: JavaObject) -> list[JavaObject]:
    return [one.child() if kind_of(one) == "Alias" else one for one in items(project.projectList())]


def _has_one_row(found: AnyRelation) -> bool:
    """Whether it always has a row, and just one: an aggregate of all rows."""
    if isinstance(found, relation.Project):
        return _has_one_row(found.child)
    return isinstance(found, relation.Aggregate) and not found.keys
