"""A circuit for people and programs: as text, as data, and as a graph.

It promises, per operator, what it computes and of which words of the query, by which keys, what it keeps
between steps and what a change costs it; and which rows cross from one pipeline worker to another.

Read `describe`, which has it all as data; `does` has a few words for each kind of node, `words` those for
their parts, `keys` its keys, `keeps` its state and cost; `graph` draws.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tidemill.pipeline.plan.circuit import Circuit
from tidemill.sql.explain.describe import describe
from tidemill.sql.explain.graph import graph
from tidemill.sql.relation import Origin

Form = Literal["text", "json", "dot"]


def explain(circuit: Circuit, origins: Mapping[str, Sequence[Origin]] = {}, form: Form = "text") -> str:
    """The circuit as text, as JSON (what `describe` says) or as a graph in the language of Graphviz.

    `origins` says, by the fingerprint of a node, what of its query it comes from.
    """
    match form:
        case "json":
            return json.dumps(describe(circuit, origins), ensure_ascii=False)
        case "dot":
            return graph(describe(circuit, origins))
    return "\n".join(line for node in describe(circuit, origins)["nodes"] for line in _lines(node))


def _lines(node: dict[str, Any]) -> list[str]:
    """What it does, keeps and costs; below, the words of the query that it comes from, if they are known."""
    inputs = f" {', '.join(map(str, node['inputs']))}" if node["inputs"] else ""
    keeps = f"; keeps {node['keeps']}" if node["keeps"] else ""
    head = f"{node['position']:>3} [stage {node['stage']}] {node['node']}{inputs}"
    words = ((f"line {one['line']}: " if one["line"] else "", one["text"]) for one in node["sql"])
    whence = [f"      from {place}{text}" for place, text in words]
    return [f"{head}: {node['does']}{keeps}; {node['cost']}", *whence]


__all__ = ["Form", "describe", "explain"]
