"""UNION ALL: linear, so the change of the output is the union of the changes."""

from collections.abc import Sequence

from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import relabel
from tidemill.pipeline.zset import concat


class UnionOperator(Operator):
    """Its inputs one after the other, each under the union's own schema."""

    cost = "O(change)"

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:  # noqa: ARG002
        schema = self.node.schema
        return (concat((relabel(change, schema) for (change,) in inputs if len(change)), schema),)
