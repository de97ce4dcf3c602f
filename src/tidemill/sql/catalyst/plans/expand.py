"""Several rows of each: what GROUPING SETS, ROLLUP, CUBE and several DISTINCT aggregates become."""

from py4j.java_gateway import JavaObject

from tidemill.sql import relation
from tidemill.sql.catalyst.expression import items
from tidemill.sql.catalyst.origin import origin_of
from tidemill.sql.catalyst.plans.reader import Reader
from tidemill.sql.catalyst.plans.schema import attributes, schema_of


def read_expand(reader: Reader, plan: JavaObject) -> relation.Expand:
    child, scope, schema = plan.child(), attributes(plan.child()), schema_of(plan.child())
    projections = tuple(
        tuple(reader.scalar(node, scope, schema) for node in items(projection))
        for projection in items(plan.projections())
    )
    return relation.Expand(schema_of(plan), origin_of(plan), reader.read(child), projections)
