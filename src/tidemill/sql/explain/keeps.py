"""What a node keeps between steps, and what a change costs it."""

from collections.abc import Sequence

from tidemill.pipeline.operators.registry import OPERATORS
from tidemill.pipeline.operators.windows.reach import bounded
from tidemill.pipeline.plan import node as nodes
from tidemill.pipeline.plan.node import AggregateCall, AnyNode

WHOLE = {
    "CollectList",
    "CollectSet",
    "ListAgg",
    "Mode",
    "Percentile",
    "PercentileDisc",
    "PivotFirst",
    "Recomputed",
}
"""Aggregate functions that look at all values of a group."""
CHOOSING = {
    "Min": "MIN",
    "Max": "MAX",
    "MinBy": "MIN_BY",
    "MaxBy": "MAX_BY",
    "First": "FIRST",
    "Last": "LAST",
}
"""Those that take one of the values, so that the next is there when it goes."""
KEEPS: dict[type, str] = {
    nodes.Source: "its rows",
    nodes.Arrange: "its rows",
    nodes.View: "its rows",
    nodes.Mark: "how often each key is in the right",
    nodes.Loop: "the rows of its nodes, by iteration",
    nodes.Temporal: "the rows that may still come or go",
    nodes.Sessions: "its rows and the sessions, by time",
    nodes.Window: "its input in order",
    nodes.TopK: "its input in order, and the last row of each group that is in",
    nodes.Distinct: "how often each row is there",
}


def keeps(node: AnyNode) -> str:
    """The state of a node; empty if it has none."""
    if isinstance(node, nodes.Aggregate):
        return "a total per group" + _detail(node.functions)
    return next((KEEPS[kind] for kind in type(node).__mro__ if kind in KEEPS), "")


def _detail(functions: Sequence[AggregateCall]) -> str:
    """What is kept beside totals, for functions that ask for it."""
    names = {one.function for one in functions}
    if names & WHOLE:
        return ", and all values of the group"
    if "Stateful" in names:
        return ", and a state"
    choosing = [shown for name, shown in CHOOSING.items() if name in names]
    verb = "choose" if len(choosing) > 1 else "chooses"
    return f", and the values that {' and '.join(choosing)} {verb} from" if choosing else ""


def cost(node: AnyNode) -> str:
    """How the work of a step follows the change."""
    if isinstance(node, nodes.Aggregate) and any(one.function in WHOLE for one in node.functions):
        return "O(rows of the touched groups)"
    if isinstance(node, nodes.Window) and node.order and bounded(node.functions):
        return "O(change · log state)"  # and what lies near the change
    return OPERATORS[type(node)].cost if type(node) in OPERATORS else "O(change)"
