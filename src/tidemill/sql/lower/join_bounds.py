"""Bounds of a join: what its condition compares, so that a side kept in order is asked for ranges of rows.

A bound need not be exact, since the condition is tested on the pairs; it must not leave one out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tidemill.pipeline.expressions import supports
from tidemill.pipeline.plan import node
from tidemill.pipeline.plan.expression import Call, Column, Literal, Tree, columns_of, literal, shift
from tidemill.pipeline.state.order import has_order
from tidemill.sql.lower.builder import Builder, conjuncts
from tidemill.sql.lower.join_sides import Side, tell_apart
from tidemill.sql.relation import Join, Keys, Scalar

SIGNS = {"LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">", "GreaterThanOrEqual": ">="}
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
OR_EQUAL = {"<": "<=", "<=": "<=", ">": ">=", ">=": ">="}
OPPOSITE = {"Add": "Subtract", "Subtract": "Add"}
CONVERSION = "PreciseTimestampConversion"


@dataclass(frozen=True, slots=True)
class Compared:
    """An expression over the left, compared with one over the right."""

    left: Tree
    sign: str
    right: Tree

    @property
    def turned(self) -> "Compared":
        return Compared(self.right, TURNED[self.sign], self.left)


def compared(relation: Join, width: int) -> tuple[Compared, ...]:
    """What the condition compares, each side by its own columns; the left has `width` of them.

    They are computed for all rows. Where a key leaves rows without a partner, only columns are compared:
    what is computed could raise.
    """
    condition, found = relation.condition, list[Compared]()
    for part in conjuncts(condition.tree) if condition and not condition.unproved else ():
        one = _sided(part, width)
        if one is None or not has_order(one.left.type):
            continue
        if isinstance(one.left, Column) and isinstance(one.right, Column):
            found.append(one)
        elif not tell_apart(relation.keys):
            found += [one, *_shifted(one), *(other.turned for other in _shifted(one.turned))]
    return tuple(found)


def pairs_of(several: tuple[Compared, ...]) -> Keys:
    return tuple((_scalar(one.left), _scalar(one.right)) for one in several)


def bounds_of(
    build: Builder, left: Side, right: Side, several: tuple[Compared, ...]
) -> tuple[node.JoinBound, ...]:
    """Those comparisons by whose column a side is in order."""
    found = []
    for at, one, to in zip(left.bounds, several, right.bounds, strict=True):
        mine, theirs = left.rows.columns[at], right.rows.columns[to]
        assert isinstance(mine, Column)
        assert isinstance(theirs, Column)
        if mine.index in _order(build, left) or theirs.index in _order(build, right):
            found.append(node.JoinBound(mine.index, one.sign, theirs.index))
    return tuple(found)


def _sided(part: Tree, width: int) -> Compared | None:
    if not isinstance(part, Call) or part.function not in SIGNS:
        return None
    found = Compared(part.arguments[0], SIGNS[part.function], part.arguments[1])
    if {index < width for index in columns_of(found.left)} == {False}:
        found = found.turned
    sides = ({index < width for index in columns_of(tree)} for tree in (found.left, found.right))
    if list(sides) != [{True}, {False}]:
        return None
    places = {index: index - width for index in columns_of(found.right)}
    return Compared(found.left, found.sign, shift(found.right, places))


def _shifted(one: Compared) -> Iterator[Compared]:
    """The same comparison with a constant moved from the right to the left: of x < y + 5, x - 5 <= y.

    So two bounds of a window around y become bounds of one column. What does not fit into the type becomes
    its least or greatest value, with which equals count.
    """
    match one.right:
        case Call(function="PreciseTimestampConversion", arguments=(Call(spark_type="long") as inner,)):
            for moved in _shifted(Compared(Call("long", CONVERSION, (one.left,)), one.sign, inner)):
                if isinstance(moved.right, Call) and moved.right.function == CONVERSION:
                    [time] = moved.right.arguments
                    yield Compared(Call(time.spark_type, CONVERSION, (moved.left,)), moved.sign, time)
        case Call(
            function="Add" | "Subtract" as function,
            spark_type="integer" | "long" as kind,
            arguments=(base, Literal() as constant),
        ) if constant.value.is_valid:
            down = (constant.value.as_py() > 0) == (function == "Add")
            range_ = np.iinfo(np.int32 if kind == "integer" else np.int64)
            limit = literal(int(range_.min if down else range_.max), constant.type)
            without = Call(kind, OPPOSITE[function], (one.left, constant), {"mode": "TRY"})
            tree = Call(kind, "Coalesce", (without, limit))
            if supports(tree) is None:
                yield Compared(tree, OR_EQUAL[one.sign], base)


def _scalar(tree: Tree) -> Scalar:
    """A part of a condition that we compute."""
    return Scalar(tree, None, lambda: "")


def _order(build: Builder, side: Side) -> tuple[int, ...]:
    kept = build.nodes[side.rows.base]
    return kept.order if isinstance(kept, node.Arrange) else ()
