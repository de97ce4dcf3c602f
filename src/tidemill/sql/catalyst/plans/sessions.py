"""Session windows: Spark merges them when it runs the aggregation whose key is marked as one."""

from py4j.java_gateway import JavaObject

from tidemill.sql import relation
from tidemill.sql.catalyst.expression import items, kind_of
from tidemill.sql.catalyst.origin import origin_of
from tidemill.sql.catalyst.plans.reader import Reader
from tidemill.sql.catalyst.plans.schema import attributes, schema_of
from tidemill.sql.relation import AnyRelation

MARK = "spark.sessionWindow"


def read_grouped(reader: Reader, plan: JavaObject) -> AnyRelation:
    """What an aggregation groups; with a session window among its keys, each row tells its session."""
    child = plan.child()
    found = reader.read(child)
    scope, schema = attributes(child), schema_of(child)
    keys = items(plan.groupingExpressions())
    marked = [key for key in keys if _is_session(key)]
    if not marked:
        return found
    [session] = marked
    others = tuple(reader.scalar(key, scope, schema) for key in keys if not _is_session(key))
    return relation.Sessions(schema, origin_of(plan), found, others, scope.attributes[session.exprId().id()])


def _is_session(key: JavaObject) -> bool:
    return kind_of(key) == "AttributeReference" and bool(key.metadata().contains(MARK))
