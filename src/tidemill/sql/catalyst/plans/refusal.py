"""What no view can hold yet, and what to write instead."""

from py4j.java_gateway import JavaObject

from tidemill.pipeline.errors import Refused
from tidemill.sql.catalyst.expression import place_of
from tidemill.sql.catalyst.origin import place_of_word, written
from tidemill.sql.catalyst.session import ASOF, FIRST

FOREIGN = {"LogicalRelation", "HiveTableRelation", "DataSourceV2ScanRelation", "DataSourceV2Relation"}
SORT = "a view has no order, sort when you read it"
BEFORE = "make the rows before you insert them"
NEAREST = "NearestByJoin"
REFUSED = {
    "Sort": ("ORDER BY without LIMIT", SORT),
    "Tail": ("tail", "take the last rows when you read the view"),
    "Sample": ("TABLESAMPLE", "its rows are drawn anew each time, so choose them by a condition"),
    "ScriptTransformation": ("TRANSFORM … USING", "register a function in Python, with spark.udf.register"),
    "BatchEvalPythonUDTF": ("a table function in Python", BEFORE),
    "ArrowEvalPythonUDTF": ("a table function in Python", BEFORE),
    "AsOfJoin": ("ASOF JOIN", ASOF),
    NEAREST: ("NEAREST BY", f"write CROSS JOIN {FIRST.format('distance')}"),
    "InMemoryRelation": ("a cached frame", "unpersist it first"),
}
"""By Catalyst's class: the construct, and what to write instead."""


def refusal(plan: JavaObject, kind: str, query: JavaObject | None = None) -> Refused:
    """The error that names the construct of a plan which nobody reads, and its place, maybe as the query's
    plan knows it."""
    if kind in FOREIGN:
        columns = ", ".join(plan.schema().fieldNames())
        return Refused(
            f"the table with columns {columns} is not one of the pipeline: CREATE TABLE and insert its rows"
        )
    text = written(plan).upper()
    if kind == "Sort" and text.startswith(("SORT BY", "CLUSTER BY")):
        return Refused(f"{text.split()[0]} BY is not supported in a view: {SORT}", place=place_of(plan))
    construct, instead = REFUSED.get(kind, (f"the operation {kind}", BEFORE))
    word = construct.split()[0]
    place = place_of(plan) if text.startswith(word) else place_of_word(word, plan, query or plan)
    return Refused(f"{construct} is not supported yet in a view: {instead}", place=place)
