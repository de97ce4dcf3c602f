"""A circuit for people: one line per node, with its stage, what it computes, keeps and costs."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tidemill.pipeline import types
from tidemill.pipeline.operators.registry import OPERATORS
from tidemill.pipeline.plan import node as nodes
from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.plan.clock import Clock
from tidemill.pipeline.plan.expression import Call, Column, Tree
from tidemill.pipeline.plan.node import AggregateCall, AnyNode
from tidemill.pipeline.zset import from_ipc

INFIX = {
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Divide": "/",
    "IntegralDivide": "div",
    "Remainder": "%",
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "And": "AND",
    "Or": "OR",
}
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
QUIET = {"mode": "ANSI"}
"""An option with this value says nothing new."""
HIDDEN = {"zone", "fromType", "toType"}
"""Options that say what the pipeline's settings or the types of the expression say."""


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
            "does": _does(node, [circuit.nodes[index] for index in node.inputs]),
            "keeps": _keeps(node),
            "cost": _cost(node),
            "in_spark": isinstance(node, nodes.SparkSelect),
            "fingerprint": circuit.fingerprints[position],
        }
        for position, node in enumerate(circuit.nodes)
    ]


def _does(node: AnyNode, inputs: Sequence[AnyNode]) -> str:
    names = _distinct([field["name"] for one in inputs for field in one.spark_schema["fields"]])
    match node:
        case nodes.Source(table=table, key=key, shard_key=shard_key):
            primary = f" with primary key ({_columns(_names(node), key)})" if key else ""
            timed = _lateness(node) if isinstance(node, nodes.TimedSource) else ""
            return f"table {table}{primary}{timed}, spread by ({_columns(_names(node), shard_key)})"
        case nodes.Select(where=where):
            columns = [text(tree, names) for tree in node.columns]
            return _select(node, columns, None if where is None else text(where, names))
        case nodes.SparkSelect():
            shown = _select(node, node.columns, node.where)
            return f"in Spark, over c0… = ({', '.join(names)}): {shown}"
        case nodes.Expand(projections=projections):
            rows = (f"({', '.join(text(tree, names) for tree in one)})" for one in projections)
            return f"({', '.join(_names(node))}) = each of {', '.join(rows)}"
        case nodes.Exchange(key=key):
            return f"to the owners of ({_columns(_carried(inputs[0]), key)})"
        case nodes.Arrange(key=key, order=order):
            ordered = f", in order of {_columns(names, order)}" if order else ""
            return f"by ({_columns(names, key)}){ordered}"
        case nodes.Join(condition=condition):
            sides = (f"({_columns(_names(one), _arranged_by(one))})" for one in inputs)
            return " = ".join(sides) + (f" where {text(condition, names)}" if condition else "")
        case nodes.Mark():
            held = _columns(names, _arranged_by(inputs[0]))
            return f"{_names(node)[-1]}: whether ({held}) is in ({', '.join(_names(inputs[1]))})"
        case nodes.Label(key=key):
            return f"to the shards of ({_columns(names, key)})" if key is not None else "to every shard"
        case nodes.Combine(keys=keys, functions=functions):
            return _groups(names, keys, functions)
        case nodes.Aggregate(keys=keys, functions=functions, input_schema=schema):
            return _groups([field["name"] for field in schema["fields"]], keys, functions)
        case nodes.Constant(rows=rows):
            return f"constant rows ({', '.join(_names(node))}): {len(from_ipc(rows))}"
        case nodes.Generate(function=function, outer=outer):
            return f"{'outer ' if outer else ''}{function}({names[-1]}) AS ({', '.join(_names(node))})"
        case nodes.Replicate():
            return f"({', '.join(_names(node))}), {names[-1]} times"
        case nodes.Loop(body=body, limit=limit):
            return f"fixed point within {limit} iterations of {_body(body)}"
        case nodes.Sessions(keys=keys, start=start, end=end):
            return f"({_columns(names, (start, end))}) of the session, by ({_columns(names, keys)})"
        case nodes.TopK(keys=keys, order=order):
            return f"{_reach(node)}{_order(names, order)}{_each(names, keys)}"
        case nodes.Window(keys=keys, order=order, functions=functions):
            shown = ", ".join(_over(names, one) for one in functions)
            return f"{shown}{_order(names, order)}{_each(names, keys)}"
        case nodes.Temporal(conditions=conditions):
            tests = (f"{names[one.column]} {one.compare} {_clock(one.clock)}" for one in conditions)
            return f"({', '.join(names)}) while {' and '.join(tests)}"
        case nodes.View(name=name):
            return f"view {name} ({', '.join(_names(node))})"
    return f"({', '.join(_names(node))})"


def _body(body: Sequence[AnyNode]) -> str:
    """The nodes of a loop, the last of which is its result."""
    lines = (
        f"{at} {type(node).__name__} {_does(node, [body[index] for index in node.inputs])}"
        for at, node in enumerate(body)
    )
    return f"[{'; '.join(lines)}]"


def _keeps(node: AnyNode) -> str:
    match node:
        case nodes.Source() | nodes.Arrange() | nodes.View():
            return "its rows"
        case nodes.Mark():
            return "how often each key is in the right"
        case nodes.Loop():
            return "the rows of its nodes, by iteration"
        case nodes.Temporal():
            return "the rows that may still come or go"
        case nodes.Sessions():
            return "its rows and the sessions, by time"
        case nodes.Window():
            return "its input in order"
        case nodes.TopK():
            return "its input in order, and the last row of each group that is in"
        case nodes.Distinct():
            return "how often each row is there"
        case nodes.Aggregate(functions=functions):
            return "a total per group" + _detail(functions)
    return ""


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
    return OPERATORS[type(node)].cost if type(node) in OPERATORS else "O(change)"


def _reach(node: nodes.TopK) -> str:
    return f"{node.ranking} {node.offset + 1} to {node.count}"


def _order(names: Sequence[str], order: Sequence[nodes.OrderColumn]) -> str:
    def way(by: nodes.OrderColumn) -> str:
        last = "" if by.nulls_last == by.descending else f" nulls {'last' if by.nulls_last else 'first'}"
        return f"{names[by.column]}{' desc' if by.descending else ''}{last}"

    return f" in the order of {', '.join(map(way, order))}" if order else ""


def _over(names: Sequence[str], window: nodes.WindowCall) -> str:
    """The function, with the frame unless that is all of the partition."""
    low, high = _end(names, window.low, "the first"), _end(names, window.high, "the last")
    whole = window.low == window.high == nodes.Bound()
    return _call(names, window.call) + ("" if whole else f" from {low} to {high}")


def _end(names: Sequence[str], bound: nodes.Bound, outermost: str) -> str:
    shown = {"rows": f"row {bound.at:+d}", "peers": "its peers", "unbounded": outermost}
    return names[bound.at] if bound.kind == "value" else shown[bound.kind]


def _each(names: Sequence[str], keys: Sequence[int]) -> str:
    return f" for each ({_columns(names, keys)})" if keys else ""


def _lateness(node: nodes.TimedSource) -> str:
    return f", {_names(node)[node.time]} at most {node.lateness_us / 1e6:g} s behind"


def _clock(clock: Clock) -> str:
    """As SQL writes it."""
    shown = {"timestamp": "now()", "date": "current_date()"}.get(clock.start, "localtimestamp()")
    for shift in clock.shifts:
        shown = f"Cast({shown} AS {shift.to})" if shift.to else shown
        parts = [
            f"{amount:+g} {unit}" for amount, unit in ((shift.days, "days"), (shift.us / 1e6, "s")) if amount
        ]
        shown = " ".join([shown, *parts])
    return shown


def _groups(names: Sequence[str], keys: tuple[int, ...], functions: tuple[AggregateCall, ...]) -> str:
    shown = ", ".join(_call(names, one) for one in functions)
    return f"{shown} by ({_columns(names, keys)})" if keys else f"{shown} of all rows"


def _call(names: Sequence[str], call: AggregateCall) -> str:
    arguments = [names[column] for column in call.columns] + list(map(str, call.constants))
    condition = "" if call.filter is None else f" where {names[call.filter]}"
    options = {name: value for name, value in call.options.items() if name not in {"name", "code"}}
    name = call.options.get("name", call.function)
    return f"{name}({', '.join(arguments) or '*'}{_options(options)}){condition}"


def _names(node: AnyNode) -> list[str]:
    return _distinct([field["name"] for field in node.spark_schema["fields"]])


def _distinct(names: list[str]) -> list[str]:
    """The names; one that is there several times is told by its position."""
    count = Counter(names)
    return [name if count[name] == 1 else f"{name}#{index}" for index, name in enumerate(names)]


def _carried(node: AnyNode) -> list[str]:
    """The names of the columns that a node puts out: those of a `Combine` start with its keys."""
    names = _names(node)
    return [names[index] for index in node.keys] if isinstance(node, nodes.Combine) else names


def _arranged_by(node: AnyNode) -> tuple[int, ...]:
    if isinstance(node, nodes.Source):
        return node.shard_key
    return node.key if isinstance(node, nodes.Arrange) else ()


def _columns(names: Sequence[str], positions: Sequence[int]) -> str:
    return ", ".join(names[index] for index in positions)


def _select(node: AnyNode, columns: Sequence[str], where: str | None) -> str:
    pairs = zip(columns, _names(node), strict=True)
    shown = ", ".join(column if column == name else f"{column} AS {name}" for column, name in pairs)
    return shown + (f" where {where}" if where else "")


def text(tree: Tree, names: Sequence[str]) -> str:
    """An expression over columns of these names, close to how SQL writes it."""
    if isinstance(tree, Column):
        return names[tree.index]
    if not isinstance(tree, Call):
        return str(tree)
    arguments = [text(argument, names) for argument in tree.arguments]
    options = _options(tree.options)
    if tree.function in INFIX and not options:
        return f"({f' {INFIX[tree.function]} '.join(arguments)})"
    if tree.function == "Cast":
        return f"Cast({arguments[0]} AS {types.sql_name(tree.type)}{options})"
    return f"{tree.function}({', '.join(arguments)}{options})"


def _options(options: dict[str, str]) -> str:
    shown = {
        name: value
        for name, value in sorted(options.items())
        if QUIET.get(name) != value and name not in HIDDEN
    }
    return "".join(f", {name}={value}" for name, value in shown.items())
