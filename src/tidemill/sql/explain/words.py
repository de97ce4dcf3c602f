"""Words for the parts of a node: columns, expressions, calls, orders, clocks."""

import re
from collections import Counter
from collections.abc import Sequence

from tidemill.pipeline import types
from tidemill.pipeline.plan import node as nodes
from tidemill.pipeline.plan.clock import Clock
from tidemill.pipeline.plan.expression import Column, Literal, Tree
from tidemill.pipeline.plan.node import AggregateCall, AnyNode, Node

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
QUIET = {"mode": "ANSI"}
"""An option with this value says nothing new."""
ADDRESS = re.compile(r"\b(Unsafe|Generic)\w+@")
HIDDEN = {"zone", "policy", "fromType", "toType"}
"""Options that say what the pipeline's settings or the types of the expression say."""


def text(tree: Tree, names: Sequence[str]) -> str:
    """An expression over columns of these names, close to how SQL writes it."""
    if isinstance(tree, Column):
        return names[tree.index]
    if isinstance(tree, Literal):
        return constant(tree)
    arguments = [text(argument, names) for argument in tree.arguments]
    shown = options(tree.options)
    if tree.function in INFIX and not shown:
        return f"({f' {INFIX[tree.function]} '.join(arguments)})"
    if tree.function == "Cast":
        return f"Cast({arguments[0]} AS {types.sql_name(tree.type)}{shown})"
    return f"{tree.function}({', '.join(arguments)}{shown})"


def constant(value: Literal) -> str:
    """As Spark SQL writes it, unless that is the address of an array, map or struct."""
    return repr(value.value.as_py()) if ADDRESS.search(value.text) else value.text


def options(known: dict[str, str]) -> str:
    shown = {
        name: value
        for name, value in sorted(known.items())
        if QUIET.get(name) != value and name not in HIDDEN
    }
    return "".join(f", {name}={value}" for name, value in shown.items())


def names_of(node: Node) -> list[str]:
    return distinct([field["name"] for field in node.spark_schema["fields"]])


def distinct(given: list[str]) -> list[str]:
    """The names; one that is there several times is told by its position."""
    count = Counter(given)
    return [name if count[name] == 1 else f"{name}#{index}" for index, name in enumerate(given)]


def arranged_by(node: AnyNode) -> tuple[int, ...]:
    """By which columns a side of a join is kept."""
    if isinstance(node, nodes.Source):
        return node.shard_key
    return node.key if isinstance(node, nodes.Arrange) else ()


def columns(names: Sequence[str], positions: Sequence[int]) -> str:
    return ", ".join(names[index] for index in positions)


def called(names: Sequence[str], call: AggregateCall) -> str:
    arguments = [names[column] for column in call.columns] + list(map(constant, call.constants))
    condition = "" if call.filter is None else f" where {names[call.filter]}"
    known = {name: value for name, value in call.options.items() if name not in {"name", "code"}}
    name = call.options.get("name", call.function)
    return f"{name}({', '.join(arguments) or '*'}{options(known)}){condition}"


def groups(names: Sequence[str], keys: tuple[int, ...], functions: tuple[AggregateCall, ...]) -> str:
    shown = ", ".join(called(names, one) for one in functions)
    return f"{shown} by ({columns(names, keys)})" if keys else f"{shown} of all rows"


def in_order(names: Sequence[str], order: Sequence[nodes.OrderColumn]) -> str:
    def way(by: nodes.OrderColumn) -> str:
        last = "" if by.nulls_last == by.descending else f" nulls {'last' if by.nulls_last else 'first'}"
        return f"{names[by.column]}{' desc' if by.descending else ''}{last}"

    return f" in the order of {', '.join(map(way, order))}" if order else ""


def each(names: Sequence[str], keys: Sequence[int]) -> str:
    return f" for each ({columns(names, keys)})" if keys else ""


def over(names: Sequence[str], window: nodes.WindowCall) -> str:
    """The function, with the frame unless that is all of the partition."""
    low, high = _end(names, window.low, "the first"), _end(names, window.high, "the last")
    whole = window.low == window.high == nodes.Bound()
    return called(names, window.call) + ("" if whole else f" from {low} to {high}")


def _end(names: Sequence[str], bound: nodes.Bound, outermost: str) -> str:
    shown = {"rows": f"row {bound.at:+d}", "peers": "its peers", "unbounded": outermost}
    return names[bound.at] if bound.kind == "value" else shown[bound.kind]


def time_of(clock: Clock) -> str:
    """As SQL writes it."""
    shown = {"timestamp": "now()", "date": "current_date()"}.get(clock.start, "localtimestamp()")
    for shift in clock.shifts:
        shown = f"Cast({shown} AS {shift.to})" if shift.to else shown
        parts = [
            f"{amount:+g} {unit}" for amount, unit in ((shift.days, "days"), (shift.us / 1e6, "s")) if amount
        ]
        shown = " ".join([shown, *parts])
    return shown
