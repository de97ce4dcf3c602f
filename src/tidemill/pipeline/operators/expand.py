"""Several rows of each: linear, so a change is expanded as a table is."""

from collections.abc import Sequence

from tidemill.pipeline import expressions
from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import shaped
from tidemill.pipeline.plan.node import Expand, Node
from tidemill.pipeline.zset import concat


class ExpandOperator(Operator):
    """The change once for each projection, one after the other."""

    node: Expand
    cost = "O(change)"

    def __init__(self, node: Expand, inputs: Sequence[Node]) -> None:
        super().__init__(node, inputs)
        self._projections = [list(map(expressions.compile, projection)) for projection in node.projections]

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:  # noqa: ARG002
        ((change,),) = inputs
        schema, size = self.node.schema, len(change)
        parts = (
            change.with_rows(shaped([column(change.rows) for column in projection], schema, size))
            for projection in self._projections
        )
        return (concat(parts if size else (), schema),)
