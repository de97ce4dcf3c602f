"""What no view can hold yet, and what to write instead."""

from py4j.java_gateway import JavaObject

from tidemill.pipeline.errors import Refused
from tidemill.sql.catalyst.expression import place_of

FOREIGN = {"LogicalRelation", "HiveTableRelation", "DataSourceV2ScanRelation", "DataSourceV2Relation"}
REFUSED = {
    "Sort": ("ORDER BY without LIMIT", "a view has no order: sort when you read it"),
    "Tail": ("tail", "take the last rows when you read the view"),
    "Sample": ("TABLESAMPLE", "its rows are drawn anew each time"),
    "BatchEvalPythonUDTF": ("a table function of Python", "make the rows before you insert them"),
    "ArrowEvalPythonUDTF": ("a table function of Python", "make the rows before you insert them"),
    "InMemoryRelation": ("a cached frame", "unpersist it first"),
}


def refusal(plan: JavaObject, kind: str) -> Refused:
    """The error that names the construct of a plan which nobody reads."""
    if kind in FOREIGN:
        name = plan.simpleString(100)
        return Refused(
            f"{place_of(plan)}{name} is not a table of the pipeline: CREATE TABLE and insert its rows"
        )
    construct, instead = REFUSED.get(kind, (f"the operation {kind}", ""))
    hint = f": {instead}" if instead else ""
    return Refused(f"{place_of(plan)}{construct} is not supported yet in a view{hint}")
