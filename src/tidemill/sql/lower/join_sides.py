"""The sides of a join, brought to where rows of equal keys meet."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidemill.pipeline.plan import node
from tidemill.pipeline.plan.expression import Call, Column, Literal, Tree
from tidemill.sql.lower.builder import Builder, Rows, conjuncts
from tidemill.sql.lower.select import computed, same
from tidemill.sql.relation import Keys, Scalar


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a join: its rows, of which the first `width` columns go on, and where its key stands.

    `bounds` are columns that are compared with those of the other side.
    """

    rows: Rows
    key: tuple[int, ...]
    width: int
    bounds: tuple[int, ...] = ()

    def ordered(self, order: tuple[int, ...]) -> "Side":
        return replace(self, key=tuple(self.key[index] for index in order))

    def output(self, after: int = 0) -> tuple[Column, ...]:
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


def sides(build: Builder, left: Rows, right: Rows, keys: Keys, bounds: Keys = ()) -> tuple[Side, Side]:
    """Both sides with their keys, in an order by which a side need not be exchanged, if there is one."""
    one = side(build, left, [pair[0] for pair in keys], [pair[0] for pair in bounds])
    other = side(build, right, [pair[1] for pair in keys], [pair[1] for pair in bounds])
    order = _order(build, one, other)
    return one.ordered(order), other.ordered(order)


def side(build: Builder, rows: Rows, keys: Sequence[Scalar], bounds: Sequence[Scalar] = ()) -> Side:
    """The side with a column for each part of the key and each bound."""
    width = len(rows.columns)
    columns = [*same(rows)]
    for one in (*keys, *bounds):
        if one not in columns:
            columns.append(one)
    fields = [
        {"name": f"key{index}", "type": column.tree.spark_type, "nullable": True, "metadata": {}}
        for index, column in enumerate(columns[width:])
    ]
    schema = {"type": "struct", "fields": [*rows.schema["fields"], *fields]}
    if fields:
        rows = computed(build, rows, tuple(columns), schema)
    return Side(rows, tuple(map(columns.index, keys)), width, tuple(map(columns.index, bounds)))


def _order(build: Builder, left: Side, right: Side) -> tuple[int, ...]:
    for side in (left, right):
        for spread in build.spread_of(side.rows):
            if sorted(spread) == sorted(side.key) and len(set(spread)) == len(spread):
                return tuple(side.key.index(index) for index in spread)
    return tuple(range(len(left.key)))


def arranged(build: Builder, side: Side) -> Side:
    """The side as the rows of a node that keeps them by the key: of a table spread by it, the table's own.

    Others are kept in the order of the column that bounds what is asked of them most often.
    """
    if _is_own_arrangement(build, side):
        key = side.base_key()
        assert key is not None
        return replace(side, key=key)
    position = build.exchanged(build.put(side.rows), side.key)
    schema = build.nodes[position].spark_schema
    order = tuple(column for column, _ in Counter(side.bounds).most_common(1))
    kept = build.add(node.Arrange((position,), schema, side.key, order=order), build.spread(position))
    return replace(side, rows=build.all_of(kept))


def _is_own_arrangement(build: Builder, side: Side) -> bool:
    """Whether the rows are those of a table spread by the key, but for some that have a NULL.

    Catalyst finds that those would not pass; not to see them is not worth a second copy of the table.
    """
    source = build.nodes[side.rows.base]
    if not isinstance(source, node.Source) or side.base_key() != source.shard_key:
        return False
    if not all(isinstance(tree, Column) for tree in side.rows.columns):
        return False
    return all(presence(part) is not None for part in conjuncts(side.rows.where))


def presence(tree: Tree) -> int | None:
    """The column that may not be NULL, if that is what is tested."""
    match tree:
        case Call(function="IsNotNull", arguments=(Column(index=index),)):
            return index
    return None


def tell_apart(keys: Keys) -> bool:
    """Whether rows are spread by these keys: one that is a constant on one side does nothing to it."""
    return any(
        not isinstance(one.tree, Literal) and not isinstance(other.tree, Literal) for one, other in keys
    )


def on_all_shards(
    build: Builder, left: Rows, right: Rows, keys: Keys, bounds: Keys = ()
) -> tuple[Side, Side]:
    """Sides that meet though no key spreads them: the right, which is small, comes to every shard.

    The rows of the left stay on theirs, each with a label of it.
    """
    one, copied = labelled(build, left), build.put(right)
    every = node.Label((copied,), _with_label(build.nodes[copied].spark_schema), None)
    other = build.all_of(build.add(every))
    found = sides(build, one, other, ((same(one)[-1], same(other)[-1]), *keys), bounds)
    return replace(found[0], width=len(left.columns)), replace(found[1], width=len(right.columns))


def labelled(build: Builder, rows: Rows) -> Rows:
    """The rows, then the label of the shard that they lie on; where that is not known, by all columns."""
    base = rows.base if build.spread(rows.base) else build.put(rows)
    spread, schema = sorted(build.spread(base)), build.nodes[base].spark_schema
    count = len(schema["fields"])
    label = node.Label((base,), _with_label(schema), spread[0] if spread else tuple(range(count)))
    position = build.add(label, [(count,), *spread] if spread else [])
    if base != rows.base:
        return build.all_of(position)
    columns = (*rows.columns, Column("integer", count))
    return Rows(position, rows.where, columns, _with_label(rows.schema))


def _with_label(schema: Any) -> Any:
    label = {"name": "shard", "type": "integer", "nullable": False, "metadata": {}}
    return {"type": "struct", "fields": [*schema["fields"], label]}


def both(left: Any, right: Any) -> Any:
    """The schema of pairs."""
    return {"type": "struct", "fields": [*left["fields"], *right["fields"]]}
