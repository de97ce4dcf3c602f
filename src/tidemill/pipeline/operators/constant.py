"""Rows that a query states itself: VALUES, a SELECT without FROM, range()."""

from collections.abc import Sequence

import numpy as np

from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import relabel
from tidemill.pipeline.plan.node import Constant, Node
from tidemill.pipeline.zset import ZSet, from_ipc, hash_rows, shard_of


class ConstantOperator(Operator):
    """Puts its rows out once, in the last round of its first step: each at the worker that owns its hash."""

    node: Constant
    cost = "O(1)"

    def __init__(self, node: Constant, inputs: Sequence[Node]) -> None:
        super().__init__(node, inputs)
        self._rows = relabel(from_ipc(node.rows), node.schema)

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:  # noqa: ARG002
        if not access.fresh or not access.last_round:
            return (ZSet.empty(self.node.schema),)
        return (self._rows.filter(np.isin(shard_of(hash_rows(self._rows.rows)), access.part.shards)),)
