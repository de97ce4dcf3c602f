"""A circuit as a graph, in the language of Graphviz."""

import textwrap
from collections.abc import Iterator
from typing import Any

SHAPES = {"Source": "cylinder", "TimedSource": "cylinder", "View": "note", "Constant": "cylinder"}
EDGES = {
    "shards": 'label="exchange", style=bold, color="#b04000"',
    "spark": 'label="Spark", style=bold, color="#0060b0"',
    "stage": "style=dashed",
}
WIDTH = 60


def graph(described: dict[str, Any]) -> str:
    """What `describe` says, drawn: a frame for each stage, and what crosses between workers in bold."""
    return "\n".join(["digraph pipeline {", *_body(described), "}"])


def _body(described: dict[str, Any]) -> Iterator[str]:
    yield "  rankdir=BT; compound=true;"
    yield '  node [shape=box, fontname="sans-serif", fontsize=10];'
    yield '  edge [fontname="sans-serif", fontsize=9];'
    for stage in range(described["stages"]):
        yield f'  subgraph cluster_{stage} {{ label="stage {stage}"; color=gray; fontname="sans-serif";'
        for node in described["nodes"]:
            if node["stage"] == stage:
                shape = f", shape={SHAPES[node['node']]}" if node["node"] in SHAPES else ""
                yield f"    n{node['position']} [label={_label(node)}{shape}];"
        yield "  }"
    for edge in described["edges"]:
        style = f" [{EDGES[edge['crosses']]}]" if edge["crosses"] else ""
        yield f"  n{edge['from']} -> n{edge['to']}{style};"


def _label(node: dict[str, Any]) -> str:
    """Lines that end on the left."""
    lines = [f"{node['position']} {node['node']}", *textwrap.wrap(node["does"], WIDTH)]
    for one in node["sql"]:
        where = f"line {one['line']}: " if one["line"] else ""
        lines += textwrap.wrap(f"SQL {where}{one['text']}", WIDTH)
    if node["keeps"]:
        lines += textwrap.wrap(f"keeps {node['keeps']}", WIDTH)
    text = "".join(line.replace("\\", "\\\\").replace('"', '\\"') + "\\l" for line in [*lines, node["cost"]])
    return f'"{text}"'
