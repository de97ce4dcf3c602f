"""A circuit for people: one line per node, with its stage, what it computes, keeps and costs.

Read `does`, which has a few words for each kind of node; `words` has those for their parts.
"""

from collections.abc import Sequence
from typing import Any

from tidemill.pipeline.operators.registry import OPERATORS
from tidemill.pipeline.operators.windows.reach import bounded
from tidemill.pipeline.plan import node as nodes
from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.plan.node import AggregateCall, AnyNode
from tidemill.sql.explain.does import does

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
"""The state of a node between steps."""


def explain(circuit: Circuit) -> str:
    """The circuit as text: a numbered list, each node after its inputs.

    "keeps" is the state that it holds between steps; the cost is that of a change.
    """
    return "\n".join(_line(entry) for entry in describe(circuit))


def _line(entry: dict[str, Any]) -> str:
    inputs = f" {', '.join(map(str, entry['inputs']))}" if entry["inputs"] else ""
    keeps = f"; keeps {entry['keeps']}" if entry["keeps"] else ""
    head = f"{entry['position']:>3} [stage {entry['stage']}] {entry['node']}{inputs}"
    return f"{head}: {entry['does']}{keeps}; {entry['cost']}"


def describe(circuit: Circuit) -> list[dict[str, Any]]:
    """The same as data: per node its position, stage, kind, inputs, what it does, keeps and costs."""
    return [
        {
            "position": position,
            "stage": circuit.stages[position],
            "node": type(node).__name__,
            "inputs": list(node.inputs),
            "columns": [field["name"] for field in node.spark_schema["fields"]],
            "does": does(node, [circuit.nodes[index] for index in node.inputs]),
            "keeps": _keeps(node),
            "cost": _cost(node),
            "in_spark": isinstance(node, nodes.SparkSelect),
            "fingerprint": circuit.fingerprints[position],
        }
        for position, node in enumerate(circuit.nodes)
    ]


def _keeps(node: AnyNode) -> str:
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
    return ", and the values that MIN and MAX choose from" if names & {"Min", "Max"} else ""


def _cost(node: AnyNode) -> str:
    if isinstance(node, nodes.Aggregate) and any(one.function in WHOLE for one in node.functions):
        return "O(rows of the touched groups)"
    if isinstance(node, nodes.Window) and node.order and bounded(node.functions):
        return "O(change · log state)"  # and what lies near the change
    return OPERATORS[type(node)].cost if type(node) in OPERATORS else "O(change)"


__all__ = ["describe", "explain"]
