"""Several rows of each."""

from tidemill.pipeline.plan import node
from tidemill.pipeline.plan.expression import Column, Literal
from tidemill.sql.lower.builder import Builder, Rows, Spread
from tidemill.sql.lower.select import only
from tidemill.sql.relation import AnyRelation, Expand, Scalar


def lower_expand(relation: AnyRelation, build: Builder) -> Rows | None:
    """What the projections compute, each once; then they only choose. They stay spread where all agree."""
    if not isinstance(relation, Expand):
        return None
    every = (scalar for projection in relation.projections for scalar in projection)
    wanted: list[Scalar] = []
    for scalar in every:
        if not isinstance(scalar.tree, Literal) and scalar not in wanted:
            wanted.append(scalar)
    position = build.put(only(build, build.lower(relation.child), wanted))
    projections = tuple(
        tuple(_chosen(scalar, wanted) for scalar in projection) for projection in relation.projections
    )
    spread = frozenset.intersection(*(_spread(build, position, one) for one in projections))
    return build.all_of(build.add(node.Expand((position,), relation.schema, projections), spread))


def _chosen(scalar: Scalar, wanted: list[Scalar]) -> Column | Literal:
    if isinstance(scalar.tree, Literal):
        return scalar.tree
    return Column(scalar.tree.spark_type, wanted.index(scalar))


def _spread(build: Builder, position: int, projection: tuple[Column | Literal, ...]) -> Spread:
    return build.spread_of(Rows(position, None, projection, None))
