"""Arrangements: the running sum of a stream, kept where others look it up by a key."""

from collections.abc import Sequence

from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import relabel, settled
from tidemill.pipeline.plan.node import Arrange, Node, Source
from tidemill.pipeline.state.spec import StateSpec


class ArrangeOperator(Operator):
    """Adds its input to its state, by key, and passes it on."""

    node: Arrange
    cost = "O(change)"

    def states(self) -> tuple[StateSpec, ...]:
        return (StateSpec("", self.node.schema, self.node.key, order=self.node.order),)

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        ((change,),) = inputs
        change = settled(relabel(change, self.node.schema))
        if len(change):
            access.own().add(change)
        return (change,)


def arranged_by(node: Node) -> tuple[int, ...]:
    """The columns by which the node's state is looked up. Raises `TypeError` if it is not an arrangement."""
    match node:
        case Arrange():
            return node.key
        case Source():
            return node.shard_key
        case _:
            raise TypeError(f"{type(node).__name__} is no arrangement")


def first_in_order(node: Node) -> int | None:
    """The column that orders the rows of a key first, if one does."""
    return node.order[0] if isinstance(node, Arrange) and node.order else None
