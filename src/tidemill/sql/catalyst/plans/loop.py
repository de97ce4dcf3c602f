"""WITH RECURSIVE: each level of rows from the level before, all of them together."""

from py4j.java_gateway import JavaObject

from tidemill.pipeline.errors import Refused
from tidemill.sql import relation
from tidemill.sql.catalyst.origin import origin_of
from tidemill.sql.catalyst.plans.reader import Reader
from tidemill.sql.catalyst.plans.schema import schema_of

LEVELS = "spark.sql.cteRecursionLevelLimit"
_MANY = 1_000_000


def read_loop(reader: Reader, plan: JavaObject) -> relation.Loop:
    """Spark lets the recursive part refer to itself once and by linear operations alone, so that the rows
    of all levels are the fixed point of anchor and recursive part together."""
    if plan.limit().isDefined():
        raise Refused("LIMIT of a recursive query is not supported yet in a view: bound it with a WHERE")
    schema, origin, depth = schema_of(plan), origin_of(plan), plan.maxDepth()
    limit = int(depth.get() if depth.isDefined() else reader.frames.spark.conf.get(LEVELS) or 100)
    several = (reader.read(plan.anchor()), reader.read(plan.recursion()))
    body = relation.Union(schema, origin, several)
    return relation.Loop(schema, origin, _name(plan.id()), body, limit if limit >= 0 else _MANY)


def read_again(_: Reader, plan: JavaObject) -> relation.Again:
    return relation.Again(schema_of(plan), origin_of(plan), _name(plan.loopId()))


def _name(number: int) -> str:
    return f"recursive query {number}"
