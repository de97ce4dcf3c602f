"""Window functions."""

import msgspec

from tidemill.pipeline import types
from tidemill.pipeline.errors import Refused
from tidemill.pipeline.plan import node
from tidemill.pipeline.plan.expression import literal
from tidemill.pipeline.plan.node import AggregateCall, Bound, WindowCall
from tidemill.sql.lower.aggregate import Arguments
from tidemill.sql.lower.builder import Builder, Rows
from tidemill.sql.lower.order import grouped, ordered, with_columns
from tidemill.sql.lower.select import same
from tidemill.sql.relation import (
    RANKINGS,
    AnyRelation,
    Edge,
    Function,
    Scalar,
    TopK,
    Window,
    WindowFunction,
)

UNFRAMED = {"RowNumber", "Rank", "DenseRank", "PercentRank", "CumeDist", "NTile", "Lag", "Lead"}
"""Functions of the whole partition, by Catalyst's name."""
FRAMED = {"NthValue", "First", "Last"}
"""Functions of frames that are no aggregates elsewhere, as they depend on the order."""
UNORDERED = {"ListAgg"}
"""Aggregates of ours that go by an order of their own, where Spark goes by that of the window."""


def lower_window(relation: AnyRelation, build: Builder) -> Rows | None:
    """Arguments as columns, rows to the owners of their partitions; then the child's columns and values."""
    if not isinstance(relation, Window):
        return None
    rows = build.lower(relation.child)
    if _numbers_the_first(relation):
        ones = tuple(literal(1, types.from_spark(one.function.spark_type)) for one in relation.functions)
        return build.select(rows, None, (*(scalar.tree for scalar in same(rows)), *ones), relation.schema)
    width = len(rows.columns)
    arguments = Windows(same(rows))
    calls = tuple(arguments.window(one) for one in relation.functions)
    keys = tuple(arguments.column(key) for key in relation.keys)
    order = tuple(arguments.column(part.by) for part in relation.order)
    rows, _ = with_columns(build, rows, arguments.scalars[width:])
    position, keys = grouped(build, rows, keys)
    held = len(rows.columns)
    fields = build.nodes[position].spark_schema["fields"] + relation.schema["fields"][width:]
    window = node.Window(
        (position,), {"type": "struct", "fields": fields}, keys, ordered(order, relation.order), calls
    )
    found = build.all_of(build.add(window, build.spread(position)))
    return Rows(found.base, None, found.columns[:width] + found.columns[held:], relation.schema)


def _numbers_the_first(relation: Window) -> bool:
    """Whether it only numbers rows of which there are none but the first: their numbers are one."""
    top = relation.child
    return (
        isinstance(top, TopK)
        and (top.keys, top.order, top.count, top.offset) == (relation.keys, relation.order, 1, 0)
        and all(RANKINGS.get(one.function.name) == top.ranking for one in relation.functions)
    )


class Windows(Arguments):
    """The columns that window functions read: those of the child first, then what they ask for."""

    def window(self, one: WindowFunction) -> WindowCall:
        """The function with arguments and bounds as columns. Raises `Refused` if it is not one of ours."""
        function = one.function
        if function.name in UNORDERED:
            raise Refused(
                f"{function.written or f'{function.text} OVER (…)'} is not supported yet in a view: join a "
                "view that groups",
                place=function.place,
            )
        if function.name in UNFRAMED:
            return WindowCall(self._own(function))
        call = self._own(function) if function.name in FRAMED else self.call(function)
        return WindowCall(call, self._bound(one.low), self._bound(one.high))

    def column(self, scalar: Scalar) -> int:
        return self._column(scalar)

    def _own(self, function: Function) -> AggregateCall:
        columns = [self._argument(function, one) for one in function.arguments]
        return AggregateCall(
            function.name,
            columns[0] if columns else None,
            function.spark_type,
            self._column(function.filter) if function.filter else None,
            function.options,
            tuple(columns[1:]) or msgspec.UNSET,
        )

    def _bound(self, edge: Edge) -> Bound:
        if edge.rows is not None:
            return Bound("rows", edge.rows)
        if edge.value is not None:
            return Bound("value", self._column(edge.value))
        return Bound("peers") if edge.peers else Bound()
