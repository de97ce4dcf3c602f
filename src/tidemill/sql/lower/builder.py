"""The circuit under construction: nodes, how their rows are spread, and selects that wait to be fused."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tidemill.pipeline.errors import Refused
from tidemill.pipeline.plan.expression import Call, Column, Tree, columns_of, walk
from tidemill.pipeline.plan.node import AnyNode, Exchange, Select, Source
from tidemill.sql.catalog import Catalog
from tidemill.sql.relation import AnyRelation, Origin

Spread = frozenset[tuple[int, ...]]
"""The keys by which a node's rows lie with their owners: several when columns are equal, none if unknown."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that a select makes of a node, when it is put there at last."""

    base: int
    where: Tree | None
    columns: tuple[Tree, ...]
    schema: Any
    origins: tuple[Origin, ...] = field(default=(), compare=False)


Rule = Callable[[AnyRelation, "Builder"], Rows | None]
"""Turns one kind of relation into nodes; None if it is of another kind."""


class Builder:
    """Collects the nodes of one view after those that are there. Equal nodes become one."""

    def __init__(
        self, catalog: Catalog, shard_keys: dict[str, tuple[int, ...]], rules: tuple[Rule, ...]
    ) -> None:
        self.nodes: list[AnyNode] = list(catalog.circuit.nodes)
        self.sources: dict[str, int] = {}
        self.catalog = catalog
        self.shard_keys = shard_keys
        self.rules = rules
        self.origins: dict[int, tuple[Origin, ...]] = {}
        """By the position of a node, what of the query it comes from."""
        self._origin = Origin()
        self._spread: dict[int, Spread] = {}
        self._known: dict[bytes, int] = {}

    def lower(self, relation: AnyRelation) -> Rows:
        """The nodes that compute a relation. Raises `Refused`, with its place, if there is no rule for it."""
        around, self._origin = self._origin, relation.origin
        try:
            for rule in self.rules:
                rows = rule(relation, self)
                if rows is not None:
                    return rows
            raise Refused(f"{type(relation).__name__} is not supported yet in a view")
        except Refused as error:
            error.place = error.place or relation.origin.place
            raise
        finally:
            self._origin = around

    def add(
        self, node: AnyNode, spread: Iterable[tuple[int, ...]] = (), origins: tuple[Origin, ...] = ()
    ) -> int:
        """The position of the node: a new one, or that of an equal node of this view."""
        _ = node.schema  # a type that cannot be kept is refused here
        text = msgspec.json.encode(node, order="deterministic")
        position = self._known.setdefault(text, len(self.nodes))
        if position == len(self.nodes):
            self.nodes.append(node)
            self.origins[position] = origins or (self._origin,)
            self._spread[position] = frozenset(spread)
        return position

    def spread(self, position: int) -> Spread:
        """How the rows of a node are spread. Those of a view may lie anywhere."""
        node = self.nodes[position]
        if isinstance(node, Source):
            return frozenset([node.shard_key])
        return self._spread.get(position, frozenset())

    def all_of(self, position: int) -> Rows:
        """The rows of a node as they are."""
        schema = self.nodes[position].spark_schema
        columns = tuple(Column(field["type"], index) for index, field in enumerate(schema["fields"]))
        return Rows(position, None, columns, schema)

    def select(self, rows: Rows, where: Tree | None, columns: tuple[Tree, ...], schema: Any) -> Rows:
        """A select on rows, fused with the one that waits unless an expression would be evaluated more often,
        or for other rows."""
        reads = Counter(index for tree in columns for index in reads_of(tree))
        computed = {index for index, tree in enumerate(rows.columns) if isinstance(tree, Call)}
        tested = columns_of(where) if where else set()
        if computed & tested or any(reads[index] > 1 for index in computed):
            rows = self.all_of(self.put(rows))
        where = rows.where if where is None else conjunction(rows.where, substitute(where, rows.columns))
        columns = tuple(substitute(tree, rows.columns) for tree in columns)
        return Rows(rows.base, where, columns, schema, (*rows.origins, self._origin))

    def put(self, rows: Rows) -> int:
        """The position of a node with these rows, whose columns are exactly these."""
        whole = self.all_of(rows.base)
        if rows.where is None and rows.columns == whole.columns:
            return rows.base
        node = Select((rows.base,), rows.schema, rows.where, rows.columns)
        return self.add(node, self.spread_of(rows), rows.origins)

    def spread_of(self, rows: Rows) -> Spread:
        places = {
            tree.index: index
            for index, tree in reversed(list(enumerate(rows.columns)))
            if isinstance(tree, Column)
        }
        return frozenset(
            tuple(places[index] for index in key)
            for key in self.spread(rows.base)
            if all(index in places for index in key)
        )

    def exchanged(self, position: int, key: tuple[int, ...]) -> int:
        """The same rows, spread by the key: through an exchange unless they already are."""
        if key in self.spread(position):
            return position
        node = Exchange((position,), self.nodes[position].spark_schema, key)
        return self.add(node, [key])


def substitute(tree: Tree, columns: tuple[Tree, ...]) -> Tree:
    """The expression over what the columns are made of."""
    if isinstance(tree, Column):
        return columns[tree.index]
    if isinstance(tree, Call):
        arguments = tuple(substitute(argument, columns) for argument in tree.arguments)
        return Call(tree.spark_type, tree.function, arguments, tree.options)
    return tree


def reads_of(tree: Tree) -> Iterator[int]:
    """The position of a column each time that the expression reads it."""
    return (node.index for node in walk(tree) if isinstance(node, Column))


def conjunction(one: Tree | None, other: Tree) -> Tree:
    return other if one is None else Call("boolean", "And", (one, other))


def conjuncts(tree: Tree | None) -> list[Tree]:
    """The parts that must all be true."""
    if tree is None:
        return []
    if isinstance(tree, Call) and tree.function == "And":
        return [part for argument in tree.arguments for part in conjuncts(argument)]
    return [tree]
