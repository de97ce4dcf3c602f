"""By what tables without a primary key are spread: what the first view that uses them asks for."""

from collections.abc import Iterator

from tidemill.pipeline.plan.expression import Column
from tidemill.sql.catalog import Catalog
from tidemill.sql.relation import (
    Aggregate,
    AnyRelation,
    Filter,
    Join,
    Leaf,
    Project,
    Scalar,
    Sessions,
    TopK,
    Window,
)

Wish = tuple[str, tuple[int, ...]]
"""A table, and the columns by which a relation would have it spread."""


def choose(relation: AnyRelation, catalog: Catalog) -> dict[str, tuple[int, ...]]:
    """The shard keys of the tables that have no source yet: where it is open, a join key, else a group key,
    else all columns."""
    wishes = [*join_wishes(relation), *group_wishes(relation)]
    chosen: dict[str, tuple[int, ...]] = {}
    for name in leaves(relation):
        table = catalog.tables.get(name)
        if table and table.position is None:
            every = tuple(range(len(table.schema["fields"])))
            asked = next((key for wanted, key in wishes if wanted == name), every)
            chosen[name] = table.key or table.shard_key or asked
    return chosen


def leaves(relation: AnyRelation) -> Iterator[str]:
    if isinstance(relation, Leaf):
        yield relation.name
    for child in relation.children:
        yield from leaves(child)


def join_wishes(relation: AnyRelation) -> Iterator[Wish]:
    """Innermost first: there the tables themselves are joined."""
    for child in relation.children:
        yield from join_wishes(child)
    if isinstance(relation, Join) and relation.keys:
        yield from _wish(relation.left, [pair[0] for pair in relation.keys])
        yield from _wish(relation.right, [pair[1] for pair in relation.keys])


def group_wishes(relation: AnyRelation) -> Iterator[Wish]:
    for child in relation.children:
        yield from group_wishes(child)
    if isinstance(relation, Aggregate | Sessions | TopK | Window) and relation.keys:
        yield from _wish(relation.child, list(relation.keys))


def _wish(relation: AnyRelation, keys: list[Scalar]) -> Iterator[Wish]:
    """The columns of a table that the keys are, if they are columns of one table."""
    found = [_trace(relation, key.tree.index) if isinstance(key.tree, Column) else None for key in keys]
    names = {origin[0] if origin else None for origin in found}
    if len(names) == 1 and None not in names:
        yield next(iter(names)) or "", tuple(origin[1] for origin in found if origin)


def _trace(relation: AnyRelation, index: int) -> tuple[str, int] | None:
    """The table's column that a column of the relation is."""
    match relation:
        case Leaf(name=name):
            return name, index
        case Filter(child=child) | TopK(child=child):
            return _trace(child, index)
        case Window(child=child) if index < len(child.schema["fields"]):
            return _trace(child, index)
        case Project(child=child, columns=columns):
            tree = columns[index].tree
            return _trace(child, tree.index) if isinstance(tree, Column) else None
    return None
