"""What each kind of node computes, in a few words."""

from collections.abc import Sequence
from functools import singledispatch

from tidemill.pipeline.plan import node as nodes
from tidemill.pipeline.plan.node import AnyNode, Node
from tidemill.pipeline.zset import from_ipc
from tidemill.sql.explain.words import (
    arranged_by,
    columns,
    distinct,
    each,
    groups,
    in_order,
    names_of,
    over,
    text,
    time_of,
)

Inputs = Sequence[AnyNode]


@singledispatch
def does(node: Node, inputs: Inputs) -> str:  # noqa: ARG001
    """What the node does with its inputs; by default the columns say it."""
    return f"({', '.join(names_of(node))})"


def _read(inputs: Inputs) -> list[str]:
    """The names of the columns that a node reads."""
    return distinct([field["name"] for one in inputs for field in one.spark_schema["fields"]])


@does.register
def _source(node: nodes.Source, _: Inputs) -> str:
    primary = f" with primary key ({columns(names_of(node), node.key)})" if node.key else ""
    timed = _lateness(node) if isinstance(node, nodes.TimedSource) else ""
    return f"table {node.table}{primary}{timed}, spread by ({columns(names_of(node), node.shard_key)})"


@does.register
def _select(node: nodes.Select, inputs: Inputs) -> str:
    names = _read(inputs)
    values = [text(tree, names) for tree in node.columns]
    return _selected(node, values, None if node.where is None else text(node.where, names))


@does.register
def _spark_select(node: nodes.SparkSelect, inputs: Inputs) -> str:
    names = _read(inputs)
    shown = _selected(node, node.columns, node.where)
    return f"in Spark, over c0… = ({', '.join(names)}): {shown}"


@does.register
def _expand(node: nodes.Expand, inputs: Inputs) -> str:
    names = _read(inputs)
    rows = (f"({', '.join(text(tree, names) for tree in one)})" for one in node.projections)
    return f"({', '.join(names_of(node))}) = each of {', '.join(rows)}"


@does.register
def _exchange(node: nodes.Exchange, inputs: Inputs) -> str:
    return f"to the owners of ({columns(_carried(inputs[0]), node.key)})"


@does.register
def _arrange(node: nodes.Arrange, inputs: Inputs) -> str:
    names = _read(inputs)
    ordered = f", in order of {columns(names, node.order)}" if node.order else ""
    return f"by ({columns(names, node.key)}){ordered}"


@does.register
def _join(node: nodes.Join, inputs: Inputs) -> str:
    names = _read(inputs)
    sides = (f"({columns(names_of(one), arranged_by(one))})" for one in inputs)
    return " = ".join(sides) + (f" where {text(node.condition, names)}" if node.condition else "")


@does.register
def _mark(node: nodes.Mark, inputs: Inputs) -> str:
    names = _read(inputs)
    held = columns(names, arranged_by(inputs[0]))
    return f"{names_of(node)[-1]}: whether ({held}) is in ({', '.join(names_of(inputs[1]))})"


@does.register
def _label(node: nodes.Label, inputs: Inputs) -> str:
    names = _read(inputs)
    return f"to the shards of ({columns(names, node.key)})" if node.key is not None else "to every shard"


@does.register
def _combine(node: nodes.Combine, inputs: Inputs) -> str:
    names = _read(inputs)
    return groups(names, node.keys, node.functions)


@does.register
def _aggregate(node: nodes.Aggregate, _: Inputs) -> str:
    return groups([field["name"] for field in node.input_schema["fields"]], node.keys, node.functions)


@does.register
def _constant(node: nodes.Constant, _: Inputs) -> str:
    return f"constant rows ({', '.join(names_of(node))}): {len(from_ipc(node.rows))}"


@does.register
def _generate(node: nodes.Generate, inputs: Inputs) -> str:
    names = _read(inputs)
    return f"{'outer ' if node.outer else ''}{node.function}({names[-1]}) AS ({', '.join(names_of(node))})"


@does.register
def _replicate(node: nodes.Replicate, inputs: Inputs) -> str:
    names = _read(inputs)
    return f"({', '.join(names_of(node))}), {names[-1]} times"


@does.register
def _loop(node: nodes.Loop, _: Inputs) -> str:
    return f"fixed point within {node.limit} iterations of {_body(node.body)}"


@does.register
def _sessions(node: nodes.Sessions, inputs: Inputs) -> str:
    names = _read(inputs)
    return f"({columns(names, (node.start, node.end))}) of the session, by ({columns(names, node.keys)})"


@does.register
def _top_k(node: nodes.TopK, inputs: Inputs) -> str:
    names = _read(inputs)
    return f"{_reach(node)}{in_order(names, node.order)}{each(names, node.keys)}"


@does.register
def _window(node: nodes.Window, inputs: Inputs) -> str:
    names = _read(inputs)
    shown = ", ".join(over(names, one) for one in node.functions)
    return f"{shown}{in_order(names, node.order)}{each(names, node.keys)}"


@does.register
def _temporal(node: nodes.Temporal, inputs: Inputs) -> str:
    names = _read(inputs)
    tests = (f"{names[one.column]} {one.compare} {time_of(one.clock)}" for one in node.conditions)
    return f"({', '.join(names)}) while {' and '.join(tests)}"


@does.register
def _view(node: nodes.View, _: Inputs) -> str:
    return f"view {node.name} ({', '.join(names_of(node))})"


def _body(body: Sequence[AnyNode]) -> str:
    """The nodes of a loop, the last of which is its result."""
    lines = (
        f"{at} {type(node).__name__} {does(node, [body[index] for index in node.inputs])}"
        for at, node in enumerate(body)
    )
    return f"[{'; '.join(lines)}]"


def _reach(node: nodes.TopK) -> str:
    return f"{node.ranking} {node.offset + 1} to {node.count}"


def _lateness(node: nodes.TimedSource) -> str:
    return f", {names_of(node)[node.time]} at most {node.lateness_us / 1e6:g} s behind"


def _carried(node: AnyNode) -> list[str]:
    """The names of the columns that a node puts out: those of a `Combine` start with its keys."""
    names = names_of(node)
    return [names[index] for index in node.keys] if isinstance(node, nodes.Combine) else names


def _selected(node: AnyNode, values: Sequence[str], where: str | None) -> str:
    pairs = zip(values, names_of(node), strict=True)
    shown = ", ".join(value if value == name else f"{value} AS {name}" for value, name in pairs)
    return shown + (f" where {where}" if where else "")
