"""Spark's optimized plan, read as relations."""

import json
import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from py4j.java_gateway import JavaObject

from tidemill.pipeline import expressions, types
from tidemill.pipeline.errors import Refused, UnsupportedType
from tidemill.pipeline.plan.expression import Call, Literal, Tree, columns_of
from tidemill.sql import relation
from tidemill.sql.catalyst import expression, literal
from tidemill.sql.catalyst.expression import Scope, items, kind_of, place_of
from tidemill.sql.catalyst.fragment import Fragments
from tidemill.sql.catalyst.session import Frames, jvm
from tidemill.sql.relation import AnyRelation, Scalar

QUALIFIER = re.compile(r"\b[A-Za-z_]\w*\.(?=\w)")
"""The name of a relation before that of a column."""
CALL = re.compile(r"\w+\s*\(.*\)", re.DOTALL)
FIELD = "GetStructField"
SAME_ROWS = {"Repartition", "RepartitionByExpression", "RebalancePartitions", "ReturnAnswer", "ResolvedHint"}
"""They say how rows are spread, which a pipeline decides by itself."""
FOREIGN = {"LogicalRelation", "HiveTableRelation", "DataSourceV2ScanRelation", "DataSourceV2Relation"}
REFUSED = {
    "Sort": ("ORDER BY", "a view has no order: sort when you read it"),
    "GlobalLimit": ("LIMIT", "limit when you read the view"),
    "LocalLimit": ("LIMIT", "limit when you read the view"),
    "Offset": ("OFFSET", "skip rows when you read the view"),
    "Tail": ("tail", "take the last rows when you read the view"),
    "Window": ("a window function (OVER)", "group in a view of its own and join it"),
    "Expand": (
        "ROLLUP, CUBE, GROUPING SETS or several DISTINCT aggregates",
        "write one view for each grouping",
    ),
    "Generate": ("explode or another function that makes rows", "make the rows before you insert them"),
    "Sample": ("TABLESAMPLE", "its rows are drawn anew each time"),
    "UnionLoop": ("a recursive query", ""),
    "LocalRelation": ("a query over constants, or one that is always empty", "insert the rows into a table"),
    "OneRowRelation": ("a SELECT without FROM", "insert the row into a table"),
    "Range": ("range()", "insert its rows into a table"),
    "InMemoryRelation": ("a cached frame", "unpersist it first"),
}


class Reader:
    """Reads the plans of frames over the tables and views of one pipeline."""

    def __init__(self, frames: Frames, fragments: Fragments) -> None:
        self._frames = frames
        self._fragments = fragments

    def read(self, plan: JavaObject) -> AnyRelation:
        """The plan as a relation. Raises `Refused` for a node or expression that we do not know."""
        kind = kind_of(plan)
        if kind in SAME_ROWS:
            return self.read(plan.child())
        match kind:
            case "LogicalRDD":
                return self._leaf(plan)
            case "Project":
                return self._project(plan)
            case "Filter":
                return self._filter(plan)
            case "Join":
                return self._join(plan)
            case "Aggregate":
                return self._aggregate(plan)
            case "BatchEvalPython" | "ArrowEvalPython":
                return self._python(plan)
            case "Union":
                children = tuple(self.read(child) for child in items(plan.children()))
                return relation.Union(schema_of(plan), place_of(plan), children)
        raise self._unknown(plan, kind)

    def _unknown(self, plan: JavaObject, kind: str) -> Refused:
        if kind in FOREIGN:
            name = plan.simpleString(100)
            return Refused(
                f"{place_of(plan)}{name} is not a table of the pipeline: CREATE TABLE and insert its rows"
            )
        construct, instead = REFUSED.get(kind, (f"the operation {kind}", ""))
        hint = f": {instead}" if instead else ""
        return Refused(f"{_own_place(plan, kind)}{construct} is not supported yet in a view{hint}")

    def _leaf(self, plan: JavaObject) -> relation.Leaf:
        name = self._frames.name_of(plan)
        if name is None:
            raise Refused(
                f"{place_of(plan)}the frame with columns {', '.join(plan.schema().fieldNames())} is "
                "not a table or view of the pipeline: CREATE TABLE and insert its rows"
            )
        return relation.Leaf(schema_of(plan), place_of(plan), name)

    def _project(self, plan: JavaObject) -> relation.Project:
        child, scope = plan.child(), attributes(plan.child())
        columns = tuple(self._scalar(column, scope, schema_of(child)) for column in items(plan.projectList()))
        return relation.Project(schema_of(plan), place_of(plan), self.read(child), columns)

    def _python(self, plan: JavaObject) -> relation.Project:
        """The child's columns and those that Python functions compute."""
        child, scope, schema = plan.child(), attributes(plan.child()), schema_of(plan.child())
        nodes = [*items(child.output()), *items(plan.udfs())]
        columns = tuple(self._scalar(node, scope, schema) for node in nodes)
        return relation.Project(schema_of(plan), place_of(plan), self.read(child), columns)

    def _filter(self, plan: JavaObject) -> AnyRelation:
        """A filter; in two when Spark must test later conditions: it sees only what passed the first."""
        child, scope, schema = plan.child(), attributes(plan.child()), schema_of(plan.child())
        parts = [self._scalar(part, scope, schema) for part in conjuncts(plan.condition())]
        ours = list(takewhile(lambda part: not part.unproved, parts))
        found = self.read(child)
        for some in (ours, parts[len(ours) :]):
            condition = both_true(some)
            if condition:
                found = relation.Filter(schema_of(plan), place_of(plan), found, condition)
        return found

    def _join(self, plan: JavaObject) -> relation.Join:
        left, right = plan.left(), plan.right()
        schema, width = both(schema_of(left), schema_of(right)), left.output().size()
        scope = Scope(positions(items(left.output()) + items(right.output())))
        keys: list[tuple[Scalar, Scalar]] = []
        rest: list[Scalar] = []
        condition = plan.condition()
        for node in [] if condition.isEmpty() else conjuncts(condition.get()):
            kind = kind_of(node)
            pair = self._key(node, scope, width) if kind in {"EqualTo", "EqualNullSafe"} else None
            if pair is None:
                rest.append(self._scalar(node, scope, schema))
                continue
            sides = zip(pair, (left, right), strict=True)
            one, other = (self._scalar(key, attributes(side), schema_of(side)) for key, side in sides)
            one, other = plain(one), plain(other)
            if kind == "EqualTo":
                keys.append((one, other))
            else:
                default = self._default(pair[0])
                keys += zip(null_safe(one, default), null_safe(other, default), strict=True)
        kind = kind_of(plan.joinType())
        return relation.Join(
            schema_of(plan),
            place_of(plan),
            kind,
            self.read(left),
            self.read(right),
            tuple(keys),
            both_true(rest),
        )

    def _key(self, node: JavaObject, scope: Scope, width: int) -> tuple[JavaObject, JavaObject] | None:
        """The sides of an equation, that over the left relation first; None if it is not such a pair."""
        one, other = node.left(), node.right()
        reads_left = {index < width for index in columns_of(expression.read(one, scope))}
        others_left = {index < width for index in columns_of(expression.read(other, scope))}
        if reads_left == {True} and others_left == {False}:
            return one, other
        if reads_left == {False} and others_left == {True}:
            return other, one
        return None

    def _default(self, node: JavaObject) -> Literal:
        """Some value of the expression's type."""
        literals = jvm(self._frames.spark).org.apache.spark.sql.catalyst.expressions.Literal
        found = literal.read(literals.default(node.dataType()))
        if not isinstance(found, Literal):
            raise Refused(f"{place_of(node)}<=> of {node.sql()} is not supported yet in a join")
        return found

    def _aggregate(self, plan: JavaObject) -> relation.Aggregate:
        child, scope, schema = plan.child(), attributes(plan.child()), schema_of(plan.child())
        grouping = items(plan.groupingExpressions())
        keys = tuple(self._scalar(key, scope, schema) for key in grouping)
        functions: list[relation.Function] = []
        found: dict[int, int] = {}
        for node in items(plan.aggregateExpressions()):
            for call in aggregate_calls(node):
                function = self._function(call, scope, schema)
                if function not in functions:
                    functions.append(function)
                found[call.resultId().id()] = len(keys) + functions.index(function)
        fields = [
            nullable(name_of(key), scalar.tree.spark_type) for key, scalar in zip(grouping, keys, strict=True)
        ]
        fields += [nullable(function.text, function.spark_type) for function in functions]
        group_schema = {"type": "struct", "fields": fields}
        inner = Scope(positions(grouping), found)
        results = tuple(
            self._scalar(node, inner, group_schema) for node in items(plan.aggregateExpressions())
        )
        return relation.Aggregate(
            schema_of(plan), place_of(plan), self.read(child), keys, tuple(functions), results, group_schema
        )

    def _function(self, call: JavaObject, scope: Scope, schema: Any) -> relation.Function:
        inner = call.aggregateFunction()
        arguments = tuple(self._scalar(child, scope, schema) for child in items(inner.children()))
        condition = call.filter()
        options = expression.options(inner)
        if call.isDistinct():
            options["distinct"] = "true"
        return relation.Function(
            kind_of(inner),
            arguments,
            None if condition.isEmpty() else self._scalar(condition.get(), scope, schema),
            json.loads(inner.dataType().json()),
            options,
            QUALIFIER.sub("", str(call.sql())),
            place_of(inner) or place_of(call),
            _written(inner),
        )

    def _scalar(self, node: JavaObject, scope: Scope, schema: Any) -> Scalar:
        tree = expression.read(node, scope)
        return Scalar(tree, unproved(tree), lambda: self._fragments.text(node, scope, schema))


def unproved(tree: Tree) -> str | None:
    """The function that keeps us from computing the expression ourselves, if there is one."""
    try:
        return expressions.supports(tree)
    except UnsupportedType as error:
        return str(error)


def _own_place(plan: JavaObject, kind: str) -> str:
    """Where the construct stands; the plan of a function is placed where its SELECT starts."""
    own = place_of(plan.expressions().head()) if kind in {"Window", "Generate"} else ""
    return own or place_of(plan)


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


def plain(key: Scalar) -> Scalar:
    """The join key without Catalyst's normalisation of the floats within it: ours compare by value."""
    tree = denormalised(key.tree)
    return Scalar(tree, unproved(tree), key.text)


def denormalised(tree: Tree) -> Tree:
    """The struct or array itself, where Catalyst takes it apart to rebuild it with normalised floats."""
    match tree:
        case Call(
            function="If", arguments=(Call(function="IsNull", arguments=(inner,)), Literal(), Call() as built)
        ):
            return inner if denormalised(built) == inner else tree
        case Call(function="CreateNamedStruct", arguments=arguments):
            fields = [denormalised(value) for value in arguments[1::2]]
            taken = [
                field.arguments[0] for field in fields if isinstance(field, Call) and field.function == FIELD
            ]
            whole = len(taken) == len(fields) and all(one == taken[0] for one in taken)
            return taken[0] if whole and _same_type(taken[0], tree) else tree
    return tree


def _same_type(one: Tree, other: Tree) -> bool:
    return types.sql_name(one.type) == types.sql_name(other.type)


def null_safe(key: Scalar, default: Literal) -> tuple[Scalar, Scalar]:
    """Two keys, never NULL, that are equal when `<=>` says so: the value or a default, and which of both."""
    value = Call(key.tree.spark_type, "Coalesce", (key.tree, default))
    missing = Call("boolean", "IsNull", (key.tree,))
    return (
        Scalar(value, key.unproved or unproved(value), lambda: f"coalesce({key.sql}, {default})"),
        Scalar(missing, key.unproved, lambda: f"({key.sql}) IS NULL"),
    )


def _written(function: JavaObject) -> str:
    """The call as it stands in the query; empty if that is not known."""
    origin = function.origin()
    if origin.sqlText().isEmpty() or origin.startIndex().isEmpty() or origin.stopIndex().isEmpty():
        return ""
    text = str(origin.sqlText().get())[origin.startIndex().get() : origin.stopIndex().get() + 1]
    return " ".join(text.split()) if CALL.fullmatch(text) else ""


def aggregate_calls(node: JavaObject) -> Iterator[JavaObject]:
    if kind_of(node) == "AggregateExpression":
        yield node
    else:
        for child in items(node.children()):
            yield from aggregate_calls(child)
