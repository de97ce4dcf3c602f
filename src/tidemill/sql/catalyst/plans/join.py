"""Joins: keys from the equations of the condition, and what is left of it."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from py4j.java_gateway import JavaObject

from tidemill.pipeline import types
from tidemill.pipeline.errors import Refused
from tidemill.pipeline.plan.expression import Call, Literal, Tree, columns_of, walk
from tidemill.pipeline.plan.expression import literal as literal_of
from tidemill.sql import relation
from tidemill.sql.catalyst import expression, literal
from tidemill.sql.catalyst.expression import Scope, kind_of, place_of
from tidemill.sql.catalyst.origin import origin_of
from tidemill.sql.catalyst.plans.reader import Reader, unproved
from tidemill.sql.catalyst.plans.schema import both, both_true, conjuncts, same, schema_of
from tidemill.sql.catalyst.plans.subquery import Input, input_of, with_values
from tidemill.sql.catalyst.session import jvm
from tidemill.sql.relation import Scalar

FIELD = "GetStructField"
MARKED = {"LeftAnti", "ExistenceJoin"}
MOST_UNSURE = 2
HARMLESS = {
    "EqualTo",
    "EqualNullSafe",
    "LessThan",
    "LessThanOrEqual",
    "GreaterThan",
    "GreaterThanOrEqual",
    "And",
    "Or",
    "Not",
    "In",
    "IsNull",
    "IsNotNull",
}
"""Functions that never raise."""
TRUE = Scalar(literal_of(True, pa.bool_()), None, lambda: "true")


def read_join(reader: Reader, plan: JavaObject) -> relation.Join | relation.Project:
    """A join; the values of subqueries in its condition are columns of the left while it is made."""
    condition = plan.condition()
    nodes = [] if condition.isEmpty() else conjuncts(condition.get())
    left = with_values(reader, input_of(reader, plan.left()), nodes)
    right = input_of(reader, plan.right())
    parts = _Parts(reader, kind_of(plan.joinType()), left, right)
    for node in nodes:
        parts.add(node)
    whole, origin = schema_of(plan), origin_of(plan)
    width, wider = plan.left().output().size(), len(left.schema["fields"])
    schema = {"type": "struct", "fields": left.schema["fields"] + whole["fields"][width:]}
    found = relation.Join(
        schema,
        origin,
        parts.kind,
        left.rows,
        right.rows,
        tuple(parts.keys),
        parts.condition(),
        tuple(parts.null_aware()),
    )
    if wider == width:
        return replace(found, schema=whole)
    kept = [*range(width), *range(wider, len(schema["fields"]))]
    return relation.Project(whole, origin, found, same(schema, kept))


class _Parts:
    """The parts of a join's condition: those that are questions of equal keys, and the rest."""

    def __init__(self, reader: Reader, kind: str, left: Input, right: Input) -> None:
        self.kind = kind
        self.keys: list[tuple[Scalar, Scalar]] = []
        self._reader = reader
        self._sides = (left, right)
        self._width = len(left.schema["fields"])
        theirs = {number: at + self._width for number, at in right.scope.attributes.items()}
        self._scope = replace(left.scope, attributes=left.scope.attributes | theirs)
        self._schema = both(left.schema, right.schema)
        self._rest: list[Scalar] = []
        self._unsure: list[tuple[JavaObject, tuple[JavaObject, JavaObject]]] = []

    def add(self, node: JavaObject) -> None:
        """Take one part, which must be true."""
        kind = kind_of(node)
        if kind in {"EqualTo", "EqualNullSafe"} and (pair := self._pair(node)):
            self._equal(pair, null_safe=kind == "EqualNullSafe")
        elif kind == "Or" and (pair := self._null_aware_pair(node)):
            self._unsure.append((node, pair))
        elif self._is_plain(node):
            self._one_sided(node)
        elif kind != "Literal" or node.value() is not True:
            self._rest.append(self._scalar(node))

    def condition(self) -> Scalar | None:
        """What must be tested on pairs."""
        more = [self._scalar(node) for node, _ in self._unsure if not self._asks_by_key]
        return both_true([*self._rest, *more])

    def null_aware(self) -> Iterator[tuple[Scalar, Scalar]]:
        for _, pair in self._unsure if self._asks_by_key else ():
            yield self._sided(pair)

    @property
    def _asks_by_key(self) -> bool:
        """Whether NOT IN is asked by keys: each of its columns makes three questions of one."""
        return not self._rest and len(self._unsure) <= MOST_UNSURE and self.kind in MARKED

    def _equal(self, pair: tuple[JavaObject, JavaObject], *, null_safe: bool) -> None:
        one, other = self._sided(pair)
        if null_safe:
            default = _default(self._reader, pair[0])
            self.keys += zip(as_null_safe(one, default), as_null_safe(other, default), strict=True)
        else:
            self.keys.append((one, other))

    def _one_sided(self, node: JavaObject) -> None:
        """A condition on one side alone is a key that must equal true."""
        at = int(min(columns_of(expression.read(node, self._scope))) >= self._width)
        key = self._reader.scalar(node, self._sides[at].scope, self._sides[at].schema)
        self.keys.append((key, TRUE) if at == 0 else (TRUE, key))

    def _is_plain(self, node: JavaObject) -> bool:
        """Whether it reads one side alone and never raises: it can be asked before there are pairs."""
        tree = expression.read(node, self._scope)
        calls = {one.function for one in walk(tree) if isinstance(one, Call)}
        return calls <= HARMLESS and len({index < self._width for index in columns_of(tree)}) == 1

    def _pair(self, node: JavaObject) -> tuple[JavaObject, JavaObject] | None:
        return _key(node, self._scope, self._width)

    def _null_aware_pair(self, node: JavaObject) -> tuple[JavaObject, JavaObject] | None:
        """The sides of `a = b OR (a = b) IS NULL`."""
        one, other = node.left(), node.right()
        if kind_of(one) != "EqualTo" or kind_of(other) != "IsNull" or not other.child().semanticEquals(one):
            return None
        return self._pair(one)

    def _sided(self, pair: tuple[JavaObject, JavaObject]) -> tuple[Scalar, Scalar]:
        sides = zip(pair, self._sides, strict=True)
        one, other = (self._reader.scalar(key, side.scope, side.schema) for key, side in sides)
        return plain(one), plain(other)

    def _scalar(self, node: JavaObject) -> Scalar:
        return self._reader.scalar(node, self._scope, self._schema)


def _key(node: JavaObject, scope: Scope, width: int) -> tuple[JavaObject, JavaObject] | None:
    """The sides of an equation, that over the left relation first; None if it is not such a pair."""
    one, other = node.left(), node.right()
    reads_left = {index < width for index in columns_of(expression.read(one, scope))}
    others_left = {index < width for index in columns_of(expression.read(other, scope))}
    if reads_left == {True} and others_left == {False}:
        return one, other
    if reads_left == {False} and others_left == {True}:
        return other, one
    return None


def _default(reader: Reader, node: JavaObject) -> Literal:
    """Some value of the expression's type."""
    literals = jvm(reader.frames.spark).org.apache.spark.sql.catalyst.expressions.Literal
    found = literal.read(literals.default(node.dataType()))
    if not isinstance(found, Literal):
        raise Refused(
            f"<=> of {node.sql()} is not supported yet in a join: compare something of another type",
            place=place_of(node),
        )
    return found


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


def as_null_safe(key: Scalar, default: Literal) -> tuple[Scalar, Scalar]:
    """Two keys, never NULL, that are equal when `<=>` says so: the value or a default, and which of both."""
    value = Call(key.tree.spark_type, "Coalesce", (key.tree, default))
    missing = Call("boolean", "IsNull", (key.tree,))
    return (
        Scalar(value, key.unproved or unproved(value), lambda: f"coalesce({key.sql}, {default})"),
        Scalar(missing, key.unproved, lambda: f"({key.sql}) IS NULL"),
    )
