"""What of a state can never change again, by the waterlines of tables: merges of its runs leave it out.

A *horizon* is a column of a state that grows with the time of the rows it was computed from: what lies below
the value that the waterline has there was computed from rows below the waterline alone. Nothing will look it
up again, so it may be forgotten in one run and still be there in another. Only nodes whose state serves
nobody else forget; tables and views keep their rows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidemill.pipeline import expressions
from tidemill.pipeline.expressions.monotone import grows_with
from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.plan.clock import DAY_US
from tidemill.pipeline.plan.expression import Call, Column, Tree
from tidemill.pipeline.plan.node import (
    Aggregate,
    AnyNode,
    Combine,
    Distinct,
    Exchange,
    Expand,
    Select,
    Sessions,
    TimedSource,
    Union,
    View,
)
from tidemill.pipeline.state.forget import Forget, numbers_of

FIRST = -(2**63)
"""Below which there is nothing."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """A column, or a field of it, each of whose values is what one of the `paths` makes of a row's time.

    A path is a source and the expressions that its time goes through, each over the column before.
    """

    column: int
    field: int | None
    paths: "tuple[Path, ...]"

    def at(self, highest: Mapping[str, int]) -> Forget | None:
        """What to forget when tables have come that far; None if one of them has not begun."""
        if any(path.source.label not in highest for path in self.paths):
            return None
        return Forget(self.column, self.field, min(path.at(highest) for path in self.paths))


@dataclass(frozen=True, slots=True)
class Path:
    source: TimedSource
    trees: tuple[Tree, ...] = ()

    def at(self, highest: Mapping[str, int]) -> int:
        """The value of the waterline."""
        waterline = highest[self.source.label] - self.source.lateness_us
        kind = self.source.schema.field(self.source.time).type
        value = pa.array([waterline // DAY_US if kind == pa.date32() else waterline], pa.int64())
        values = value.cast(pa.int32()).view(kind) if kind == pa.date32() else value.view(kind)
        for tree in self.trees:
            values = expressions.compile(tree)(pa.record_batch([values], ["time"]))
        return int(numbers_of(values)[0]) if values.is_valid()[0].as_py() else FIRST


def horizons(circuit: Circuit) -> dict[str, Horizon]:
    """By the fingerprint of a node, the horizon of all its states."""
    found = {}
    for position, node in enumerate(circuit.nodes):
        if isinstance(node, Aggregate | Distinct):
            horizon = next(_horizons(circuit, position, node), None)
            if horizon is not None:
                found[circuit.fingerprints[position]] = horizon
    return found


def _horizons(circuit: Circuit, position: int, node: Aggregate | Distinct) -> Iterator[Horizon]:
    """Of the columns that the states of a node begin with."""
    columns = len(node.keys) if isinstance(node, Aggregate) else len(node.schema)
    for column in range(columns):
        for field in (None, 0, 1):
            if paths := _paths(circuit, position, column, field):
                yield Horizon(column, field, paths)


def _paths(circuit: Circuit, position: int, column: int, field: int | None) -> tuple[Path, ...]:
    """The ways in which a column comes to its values, if it grows with time on each; else none."""
    node = circuit.nodes[position]
    match node:
        case TimedSource(time=time):
            return (Path(node),) if column == time and field is None else ()
        case Exchange() | View() | Distinct():
            return _paths(circuit, node.inputs[0], column, field)
        case Aggregate(keys=keys):
            return _paths(circuit, node.inputs[0], column, field) if column < len(keys) else ()
        case Combine(keys=keys):
            return _paths(circuit, node.inputs[0], keys[column], field)
        case Sessions(start=start, end=end):
            # A session that ends before any row that may come is closed.
            return _paths(circuit, node.inputs[0], start, None) if column == end and field is None else ()
        case Union():
            return _all(_paths(circuit, index, column, field) for index in node.inputs)
        case Select(columns=columns):
            return _through(circuit, node, columns[column], field)
        case Expand(projections=projections):
            return _all(_through(circuit, node, projection[column], field) for projection in projections)
    return ()


def _through(circuit: Circuit, node: AnyNode, tree: Tree, field: int | None) -> tuple[Path, ...]:
    """The ways to what an expression over the node's input gives."""
    if field is not None and isinstance(tree, Call) and tree.function == "CreateNamedStruct":
        tree, field = tree.arguments[2 * field + 1], None
    if field is None and isinstance(tree, Call) and tree.function == "GetStructField":
        field, tree = int(tree.options["ordinal"]), tree.arguments[0]
    if isinstance(tree, Column):
        return _paths(circuit, node.inputs[0], tree.index, field)
    grown = grows_with(tree) if field is None else None
    if grown is None:
        return ()
    index, alone = grown
    below = _paths(circuit, node.inputs[0], index, None)
    return tuple(Path(path.source, (*path.trees, alone)) for path in below)


def _all(several: Iterator[tuple[Path, ...]]) -> tuple[Path, ...]:
    found = list(several)
    return tuple(path for paths in found for path in paths) if all(found) else ()
