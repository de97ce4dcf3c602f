"""DISTINCT: each row that is there at all, once."""

from collections.abc import Sequence

import numpy as np

from tidemill.pipeline.operators.matching import weights_found
from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import relabel
from tidemill.pipeline.plan.node import Distinct
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import ZSet, add_checked, consolidate, hash_rows


class DistinctOperator(Operator):
    """Keeps how often each row is there, and tells when a row comes to be there or ceases to."""

    node: Distinct
    cost = "O(change · log state)"

    def states(self) -> tuple[StateSpec, ...]:
        schema = self.node.schema
        return (StateSpec("", schema, tuple(range(len(schema)))),)

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        ((change,),) = inputs
        change = consolidate(relabel(change, self.node.schema))
        if not len(change):
            return (change,)
        matches = access.own().lookup(change.rows, hash_rows(change.rows))
        before = weights_found(matches, len(change))
        after = add_checked(before, change.weights)
        access.own().add(change)
        turned = (after > 0).astype(np.int64) - (before > 0)
        return (ZSet(change.rows, turned).filter(turned != 0),)
