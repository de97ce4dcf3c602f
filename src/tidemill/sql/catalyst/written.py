"""Refusals in the words of the query: Catalyst rewrites some constructs into others before they are read."""

import re
from collections.abc import Iterator

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from tidemill.sql.catalyst.expression import items, kind_of, place_of

BECOMES = {
    "Intersect": ("SEMI JOIN", "explode"),
    "Except": ("ANTI JOIN", "explode"),
    "Unpivot": ("ROLLUP",),
}
"""By a construct's class in the parsed plan, how a refusal may name what Catalyst makes of it."""
OPERATOR = re.compile(r"\b(?:INTERSECT|EXCEPT|MINUS)(?:\s+ALL)?\b", re.IGNORECASE)


def in_words_of_the_query(frame: DataFrame, refusal: str) -> str:
    """The refusal, by the construct that the user wrote and its place, if Catalyst made another of it."""
    for node in _plans(frame._jdf.queryExecution().logical()):
        kind = kind_of(node)
        if any(name in refusal for name in BECOMES.get(kind, ())):
            found = (
                _operator(node, kind) if kind in {"Intersect", "Except"} else place_of(node) + kind.upper()
            )
            return f"{found} is not supported yet in a view"
    return refusal


def _plans(plan: JavaObject) -> Iterator[JavaObject]:
    """A plan and all within it, named queries and subqueries too."""
    yield plan
    for inner in (*items(plan.innerChildren()), *items(plan.children())):
        yield from _plans(inner)


def _operator(node: JavaObject, kind: str) -> str:
    """The word between two queries with its place: Catalyst places it where the first of them starts."""
    origin = node.right().origin()
    if not origin.sqlText().isEmpty() and not origin.startIndex().isEmpty():
        before = str(origin.sqlText().get())[: origin.startIndex().get()]
        words = list(OPERATOR.finditer(before))
        if words:
            at = words[-1].start()
            line, column = before.count("\n", 0, at) + 1, at - before.rfind("\n", 0, at)
            return f"line {line}, column {column}: {' '.join(words[-1].group().upper().split())}"
    return f"{place_of(node)}{kind.upper()}{' ALL' if node.isAll() else ''}"
