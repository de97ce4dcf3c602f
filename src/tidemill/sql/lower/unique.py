"""Which columns tell the rows of a relation apart, by what it is."""

from collections.abc import Iterable

from tidemill.pipeline.plan.expression import Column
from tidemill.sql.catalog import Catalog
from tidemill.sql.relation import Aggregate, AnyRelation, Filter, Leaf, Project, Scalar


def is_unique(relation: AnyRelation, columns: Iterable[Scalar], catalog: Catalog) -> bool:
    """Whether no two rows have the same values of these columns: a primary key or all of a GROUP BY is in."""
    places = {one.tree.index for one in columns if isinstance(one.tree, Column)}
    match relation:
        case Leaf(name=name):
            key = catalog.tables[name].key if name in catalog.tables else ()
            return bool(key) and places.issuperset(key)
        case Filter(child=child):
            return is_unique(child, columns, catalog)
        case Project(child=child, columns=computed):
            return is_unique(child, [computed[index] for index in places], catalog)
        case Aggregate(keys=keys, results=results):
            trees = (results[index].tree for index in places)
            held = {tree.index for tree in trees if isinstance(tree, Column)}
            return held.issuperset(range(len(keys)))
    return False
