"""Joins: keys from the equations of the condition, and what is left of it."""

from py4j.java_gateway import JavaObject

from tidemill.pipeline import types
from tidemill.pipeline.errors import Refused
from tidemill.pipeline.plan.expression import Call, Literal, Tree, columns_of
from tidemill.sql import relation
from tidemill.sql.catalyst import expression, literal
from tidemill.sql.catalyst.expression import Scope, items, kind_of, place_of
from tidemill.sql.catalyst.plans.reader import Reader, unproved
from tidemill.sql.catalyst.plans.schema import attributes, both, both_true, conjuncts, positions, schema_of
from tidemill.sql.catalyst.session import jvm
from tidemill.sql.relation import Scalar

FIELD = "GetStructField"


def read_join(reader: Reader, plan: JavaObject) -> relation.Join:
    left, right = plan.left(), plan.right()
    schema, width = both(schema_of(left), schema_of(right)), left.output().size()
    scope = Scope(positions(items(left.output()) + items(right.output())))
    keys: list[tuple[Scalar, Scalar]] = []
    rest: list[Scalar] = []
    condition = plan.condition()
    for node in [] if condition.isEmpty() else conjuncts(condition.get()):
        kind = kind_of(node)
        pair = _key(node, scope, width) if kind in {"EqualTo", "EqualNullSafe"} else None
        if pair is None:
            rest.append(reader.scalar(node, scope, schema))
            continue
        sides = zip(pair, (left, right), strict=True)
        one, other = (reader.scalar(key, attributes(side), schema_of(side)) for key, side in sides)
        one, other = plain(one), plain(other)
        if kind == "EqualTo":
            keys.append((one, other))
        else:
            default = _default(reader, pair[0])
            keys += zip(null_safe(one, default), null_safe(other, default), strict=True)
    kind = kind_of(plan.joinType())
    return relation.Join(
        schema_of(plan),
        place_of(plan),
        kind,
        reader.read(left),
        reader.read(right),
        tuple(keys),
        both_true(rest),
    )


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
        raise Refused(f"{place_of(node)}<=> of {node.sql()} is not supported yet in a join")
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


def null_safe(key: Scalar, default: Literal) -> tuple[Scalar, Scalar]:
    """Two keys, never NULL, that are equal when `<=>` says so: the value or a default, and which of both."""
    value = Call(key.tree.spark_type, "Coalesce", (key.tree, default))
    missing = Call("boolean", "IsNull", (key.tree,))
    return (
        Scalar(value, key.unproved or unproved(value), lambda: f"coalesce({key.sql}, {default})"),
        Scalar(missing, key.unproved, lambda: f"({key.sql}) IS NULL"),
    )
