"""Functions of the moment: the optimizer makes constants of them, so one looks before it does."""

import re

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from tidemill.pipeline.errors import Refused
from tidemill.sql.catalyst.clocks import CLOCKS, with_moment, with_references
from tidemill.sql.catalyst.expression import CHANGING, expressions_of, kind_of, place_of
from tidemill.sql.catalyst.session import Frames

SETTINGS = {
    "CurrentTime": "current_time()",
    "CurrentUser": "current_user()",
    "CurrentDatabase": "current_database()",
    "CurrentCatalog": "current_catalog()",
}
_CLASS = re.compile(r'"class":"org\.apache\.spark\.sql\.catalyst\.expressions\.(\w+)"')


def settled(frames: Frames, frame: DataFrame) -> JavaObject:
    """The analyzed plan of a query, in which nothing changes but the step's clock in a WHERE.

    Raises `Refused` if it asks for the clock elsewhere or, maybe over constants, for chance.
    """
    changing = {**SETTINGS, **CHANGING}
    plan = frame._jdf.queryExecution().analyzed()
    clocked = False
    for name in _CLASS.findall(str(plan.toJSON())):
        clocked |= name in CLOCKS
        if name in changing:
            places = (place_of(node) for node in expressions_of(plan) if kind_of(node) == name)
            raise Refused(
                f"{next(places, '')}{changing[name]} gives another value each time: "
                "compute it before the rows are inserted"
            )
    return with_references(frames.spark, plan) if clocked else plan


def at_moment(spark: SparkSession, plan: JavaObject, clock_ms: int) -> JavaObject:
    """The analyzed plan of a view's query as if the clock showed this."""
    clocked = CLOCKS.keys() & set(_CLASS.findall(str(plan.toJSON())))
    return with_moment(spark, plan, clock_ms) if clocked else plan
