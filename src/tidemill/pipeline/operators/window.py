"""Window functions: each row of a partition with values of the rows around it."""

from collections.abc import Sequence

import pyarrow as pa

from tidemill.pipeline.operators.aggregates.measure import Touched
from tidemill.pipeline.operators.groupwise import GroupwiseOperator
from tidemill.pipeline.operators.operator import Access, Flow
from tidemill.pipeline.operators.rows import relabel, shaped
from tidemill.pipeline.operators.windows import Ordering, compile_call, sort_rows
from tidemill.pipeline.plan.node import Node, Window
from tidemill.pipeline.state.order import Direction
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import ZSet, consolidate, group_rows, pick
from tidemill.pipeline.zset.value import take_rows


class WindowOperator(GroupwiseOperator):
    """Keeps its input by partition and in order, and computes the partitions anew that a step touches."""

    node: Window
    cost = "O(rows of the touched groups)"

    def __init__(self, node: Window, inputs: Sequence[Node]) -> None:
        super().__init__(node, inputs)
        fields = list(node.schema)[: len(node.schema) - len(node.functions)]
        self.schema = pa.schema(fields)
        ways = tuple(Direction(by.descending, by.nulls_last) for by in node.order)
        self.ordering = Ordering(tuple(by.column for by in node.order), ways)
        self.functions = [compile_call(call, self.schema, self.ordering) for call in node.functions]

    def states(self) -> tuple[StateSpec, ...]:
        columns, directions = self.ordering.columns, self.ordering.directions
        return (StateSpec("", self.schema, self.node.keys, order=columns, directions=directions),)

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        ((change,),) = inputs
        return super().step([(consolidate(relabel(change, self.schema)),)], access)

    def touched(self, inputs: Sequence[Flow]) -> Touched:
        ((change,),) = inputs
        keys = pick(change.rows, self.node.keys)
        groups = group_rows(keys)
        return Touched(take_rows(keys, groups.first), groups.hashes)

    def keep(self, inputs: Sequence[Flow], access: Access) -> None:
        ((change,),) = inputs
        if len(change):
            access.own().add(change)

    def rows(self, access: Access, groups: Touched, *, before: bool) -> ZSet:
        matches = access.own().lookup(groups.keys, groups.hashes, before=before)
        rows = sort_rows(matches.found, matches.probe, self.ordering)
        values = [function(rows) for function in self.functions]
        return ZSet.of(shaped([*rows.rows.columns, *values], self.node.schema, len(rows)))
