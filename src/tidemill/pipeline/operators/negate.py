"""The opposite weights: linear, so a change is negated as it comes."""

from collections.abc import Sequence

from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import relabel


class NegateOperator(Operator):
    """Takes away what its input adds, and the other way round."""

    cost = "O(change)"

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:  # noqa: ARG002
        ((change,),) = inputs
        return (relabel(change, self.node.schema).negate(),)
