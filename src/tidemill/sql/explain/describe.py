"""A circuit as data: what a console or a program shows of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidemill.pipeline.plan import node as nodes
from tidemill.pipeline.plan.circuit import Circuit
from tidemill.sql.explain.does import does
from tidemill.sql.explain.keeps import cost, keeps
from tidemill.sql.explain.keys import keys
from tidemill.sql.relation import Origin

LONGEST = 200
"""So much is shown of the words of a query."""


def describe(circuit: Circuit, origins: Mapping[str, Sequence[Origin]]) -> dict[str, Any]:
    """The nodes, each after its inputs, and the edges between them.

    An edge `crosses` "shards" where its rows go to the owners of their keys, "spark" where Spark computes
    what comes next, "stage" where they only wait for others; and nothing (null) within a stage.
    """
    return {
        "nodes": [_node(circuit, position, origins) for position in range(len(circuit.nodes))],
        "edges": [
            {"from": index, "to": position, "crosses": _crosses(circuit, index, position)}
            for position, node in enumerate(circuit.nodes)
            for index in node.inputs
        ],
        "stages": circuit.stage_count,
    }


def _node(circuit: Circuit, position: int, origins: Mapping[str, Sequence[Origin]]) -> dict[str, Any]:
    node, mark = circuit.nodes[position], circuit.fingerprints[position]
    inputs = [circuit.nodes[index] for index in node.inputs]
    return {
        "position": position,
        "stage": circuit.stages[position],
        "node": type(node).__name__,
        "inputs": list(node.inputs),
        "columns": [field["name"] for field in node.spark_schema["fields"]],
        "does": does(node, inputs),
        "sql": [_words(origin) for origin in dict.fromkeys(origins.get(mark, ())) if origin.text],
        "keys": keys(node, inputs),
        "keeps": keeps(node),
        "cost": cost(node),
        "in_spark": isinstance(node, nodes.SparkSelect),
        "views": list(circuit.views_above(position)),
        "fingerprint": mark,
    }


def _words(origin: Origin) -> dict[str, Any]:
    text = origin.text if len(origin.text) <= LONGEST else f"{origin.text[:LONGEST]}…"
    place = origin.place
    return {"text": text, "line": place and place.line, "column": place and place.column}


def _crosses(circuit: Circuit, start: int, end: int) -> str | None:
    match circuit.nodes[end]:
        case nodes.Exchange():
            return "shards"
        case nodes.SparkSelect():
            return "spark"
    return "stage" if circuit.stages[start] != circuit.stages[end] else None
