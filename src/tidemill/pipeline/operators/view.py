"""Views: the rows that a user sees, and their change in a step."""

from collections.abc import Sequence

from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import relabel, settled
from tidemill.pipeline.plan.node import View
from tidemill.pipeline.state.spec import StateSpec


class ViewOperator(Operator):
    """Adds its input to the view's rows, and passes it on under the view's schema.

    The rows stay at the pipeline worker that computed them. So a worker may hold a row with a negative weight
    that another holds with a positive one: only the sum over all workers is the view.
    """

    node: View
    cost = "O(change)"

    def states(self) -> tuple[StateSpec, ...]:
        schema = self.node.schema
        return (StateSpec("", schema, tuple(range(len(schema))), aligned=False),)

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        ((change,),) = inputs
        change = settled(relabel(change, self.node.schema))
        if len(change):
            access.own().add(change)
        return (change,)
