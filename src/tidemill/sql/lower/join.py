"""Inner joins on equal keys."""

from dataclasses import dataclass
from typing import Any

from tidemill.pipeline.errors import Refused
from tidemill.pipeline.plan import node
from tidemill.pipeline.plan.expression import Call, Column, Tree, shift
from tidemill.sql.lower.builder import Builder, Rows, conjunction, conjuncts
from tidemill.sql.lower.select import computed, in_spark, same
from tidemill.sql.relation import AnyRelation, Join, Scalar

REFUSED = {
    "LeftOuter": "LEFT OUTER JOIN",
    "RightOuter": "RIGHT OUTER JOIN",
    "FullOuter": "FULL OUTER JOIN",
    "LeftSemi": "LEFT SEMI JOIN, IN (SELECT …) or EXISTS",
    "LeftAnti": "LEFT ANTI JOIN, NOT IN (SELECT …) or NOT EXISTS",
    "LeftSingle": "a correlated subquery that gives one value",
    "ExistenceJoin": "IN (SELECT …) or EXISTS beside another condition",
}


def lower_join(relation: AnyRelation, build: Builder) -> Rows | None:
    """Both sides arranged by their keys, and the pairs of rows; further conditions are tested on the pairs.

    A side that is a table spread by the very key is joined on the table's own rows.
    """
    if not isinstance(relation, Join):
        return None
    if relation.kind not in {"Inner", "Cross"} or not relation.keys:
        construct = REFUSED.get(relation.kind, "a join without an equality between both sides")
        raise Refused(
            f"{relation.place}{construct} is not supported yet in a view: "
            "write an inner join on equal columns"
        )
    left = _side(build, relation.left, [pair[0] for pair in relation.keys])
    right = _side(build, relation.right, [pair[1] for pair in relation.keys])
    order = _order(build, left, right)
    left, right = _arranged(build, left.ordered(order)), _arranged(build, right.ordered(order))
    schema = _both(build, left, right)
    width = len(build.nodes[left.rows.base].spark_schema["fields"])
    columns = left.output(0) + right.output(width)
    proved = relation.condition is not None and not relation.condition.unproved
    condition = _tests(left, right, width)
    if relation.condition and proved:
        places = {index: tree.index for index, tree in enumerate(columns)}
        condition = conjunction(condition, shift(relation.condition.tree, places))
    spread = [left.key, tuple(index + width for index in right.key)]
    position = build.add(node.Join((left.rows.base, right.rows.base), schema, condition), spread)
    rows = Rows(position, None, columns, relation.schema)
    if relation.condition and not proved:
        return in_spark(build, rows, relation.condition, same(rows), relation.schema)
    return rows


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a join: its rows, of which the first `width` columns go on, and where its key stands."""

    rows: Rows
    key: tuple[int, ...]
    width: int

    def ordered(self, order: tuple[int, ...]) -> "Side":
        return Side(self.rows, tuple(self.key[index] for index in order), self.width)

    def output(self, after: int) -> tuple[Column, ...]:
        """The columns that go on, when the node below comes after so many others."""
        trees = self.rows.columns[: self.width]
        return tuple(
            Column(tree.spark_type, tree.index + after) for tree in trees if isinstance(tree, Column)
        )

    def base_key(self) -> tuple[int, ...] | None:
        """The key's positions in the node below, if it has these columns."""
        trees = [self.rows.columns[index] for index in self.key]
        plain = tuple(tree.index for tree in trees if isinstance(tree, Column))
        return plain if len(plain) == len(trees) else None


def _side(build: Builder, relation: AnyRelation, keys: list[Scalar]) -> Side:
    """The side with a column for each part of the key."""
    rows = build.lower(relation)
    width = len(rows.columns)
    columns = [*same(rows)]
    columns += [key for key in keys if key not in columns]
    fields = [
        {"name": f"key{index}", "type": column.tree.spark_type, "nullable": True, "metadata": {}}
        for index, column in enumerate(columns[width:])
    ]
    schema = {"type": "struct", "fields": [*rows.schema["fields"], *fields]}
    if fields:
        rows = computed(build, rows, tuple(columns), schema)
    return Side(rows, tuple(columns.index(key) for key in keys), width)


def _order(build: Builder, left: Side, right: Side) -> tuple[int, ...]:
    """In which order to take the parts of the key, so that a side need not be exchanged."""
    for side in (left, right):
        for spread in build.spread_of(side.rows):
            if sorted(spread) == sorted(side.key) and len(set(spread)) == len(spread):
                return tuple(side.key.index(index) for index in spread)
    return tuple(range(len(left.key)))


def _arranged(build: Builder, side: Side) -> Side:
    """The side as the rows of a node that keeps them by the key."""
    if _is_own_arrangement(build, side):
        key = side.base_key()
        assert key is not None
        return Side(side.rows, key, side.width)
    position = build.exchanged(build.put(side.rows), side.key)
    schema = build.nodes[position].spark_schema
    arranged = build.add(node.Arrange((position,), schema, side.key), build.spread(position))
    return Side(build.all_of(arranged), side.key, side.width)


def _is_own_arrangement(build: Builder, side: Side) -> bool:
    """Whether the rows are those of a table spread by the key, but for some that have a NULL.

    Catalyst finds that those would not pass; not to see them is not worth a second copy of the table.
    """
    source = build.nodes[side.rows.base]
    if not isinstance(source, node.Source) or side.base_key() != source.shard_key:
        return False
    if not all(isinstance(tree, Column) for tree in side.rows.columns):
        return False
    return all(_presence(part) is not None for part in conjuncts(side.rows.where))


def _presence(tree: Tree) -> int | None:
    """The column that may not be NULL, if that is what is tested."""
    match tree:
        case Call(function="IsNotNull", arguments=(Column(index=index),)):
            return index
    return None


def _tests(left: Side, right: Side, width: int) -> Tree | None:
    """What is left to test of sides that are tables' own rows; that the key is not NULL, the join sees to."""
    found: Tree | None = None
    for side, after in ((left, 0), (right, width)):
        for part in conjuncts(side.rows.where):
            if (index := _presence(part)) is not None and index not in side.key:
                found = conjunction(found, shift(part, {index: index + after}))
    return found


def _both(build: Builder, left: Side, right: Side) -> Any:
    fields = [field for side in (left, right) for field in build.nodes[side.rows.base].spark_schema["fields"]]
    return {"type": "struct", "fields": fields}
