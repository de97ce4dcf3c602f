"""What has another value each time, of which the optimizer makes constants; so one looks before it does."""

import re

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from tidemill.pipeline.errors import Refused
from tidemill.sql.catalyst.clocks import CLOCKS, with_moment, with_references
from tidemill.sql.catalyst.expression import (
    CHANGING,
    expressions_in,
    expressions_of,
    kind_of,
    place_of,
    plans_of,
)
from tidemill.sql.catalyst.origin import written
from tidemill.sql.catalyst.plans.refusal import NEAREST, refusal
from tidemill.sql.catalyst.session import Frames

SESSION = {
    "CurrentUser": "current_user()",
    "CurrentDatabase": "current_database()",
    "CurrentCatalog": "current_catalog()",
    "CurrentPath": "current_path()",
    "SparkVersion": "version()",
    "VariableReference": "a variable",
}
"""By Catalyst's class, what a session knows."""
PARSED = {"ParseToDate", "ParseToTimestamp"}
"""Functions that become casts."""
TIMES = {"date", "timestamp", "timestamp_ntz"}
MOMENT = re.compile(r"\s*(now|today|yesterday|tomorrow)\b", re.IGNORECASE)
"""Text that Spark takes for a time of its own: DATE 'today', at > 'now'."""
QUOTED = re.compile(r"""['"](.*)['"]""", re.DOTALL)


def settled(frames: Frames, frame: DataFrame) -> JavaObject:
    """The analyzed plan of a query, in which nothing changes but the step's clock in a WHERE.

    Raises `Refused` if it asks for the clock elsewhere or, maybe over constants, for chance or the session;
    also for a join of which the optimizer makes chance.
    """
    plan = frame._jdf.queryExecution().analyzed()
    clocked = False
    for part in plans_of(plan):
        if kind_of(part) == NEAREST:
            raise refusal(part, NEAREST)
        for node in expressions_in(part):
            kind = kind_of(node)
            clocked |= kind in CLOCKS
            reason = _changes(node, kind)
            if reason:
                raise Refused(reason, place=place_of(node))
    return with_references(frames.spark, plan) if clocked else plan


def _changes(node: JavaObject, kind: str) -> str | None:
    """Why the value of an expression is not the same each time, and what to do about it; None if it is."""
    if kind in SESSION:
        shown = written(node) or SESSION[kind]
        return f"{shown} is what the session says when the view is created: write the value itself"
    if kind in {"Literal", "Cast", *PARSED} and _is_moment(node, kind):
        shown = written(node) or str(node.sql())
        return (
            f"{shown} is the moment at which the view is created: compare a column with now() or "
            "current_date() in a WHERE, or compute it before the rows are inserted"
        )
    if kind in CHANGING or (kind == "AesEncrypt" and _draws_lots(node)):
        shown = written(node) or CHANGING.get(kind, "aes_encrypt()")
        return f"{shown} gives another value each time: compute it before the rows are inserted"
    return None


def _is_moment(node: JavaObject, kind: str) -> bool:
    """Whether it is a time, made of the name of one."""
    if str(node.dataType().simpleString()) not in TIMES:
        return False
    if kind in PARSED:
        node = node.replacement()
        return kind_of(node) == "Cast" and _is_moment(node, "Cast")
    if kind == "Literal":
        text = QUOTED.search(written(node))
        return text is not None and MOMENT.match(text[1]) is not None
    child = node.child()
    if not child.foldable() or str(child.dataType().simpleString()) != "string":
        return False
    return MOMENT.match(str(child.eval(None) or "")) is not None


def _draws_lots(encryption: JavaObject) -> bool:
    """Whether it starts from chance, as it does unless it is handed a constant vector, or needs none."""
    return not _says(encryption.iv()) and _says(encryption.mode()) != "ECB"


def _says(node: JavaObject) -> str:
    """What a constant is, in capitals; nothing for another expression."""
    value = node.eval(None) if node.foldable() else ""
    return (value.hex() if isinstance(value, bytes) else str(value)).upper()


def at_moment(spark: SparkSession, plan: JavaObject, clock_ms: int) -> JavaObject:
    """The analyzed plan of a view's query as if the clock showed this."""
    clocked = any(kind_of(node) in CLOCKS for node in expressions_of(plan))
    return with_moment(spark, plan, clock_ms) if clocked else plan
