"""UNION ALL."""

from py4j.java_gateway import JavaObject

from tidemill.sql import relation
from tidemill.sql.catalyst.expression import items
from tidemill.sql.catalyst.origin import origin_of
from tidemill.sql.catalyst.plans.reader import Reader
from tidemill.sql.catalyst.plans.schema import schema_of


def read_union(reader: Reader, plan: JavaObject) -> relation.Union:
    several = tuple(reader.read(child) for child in items(plan.children()))
    return relation.Union(schema_of(plan), origin_of(plan), several)
