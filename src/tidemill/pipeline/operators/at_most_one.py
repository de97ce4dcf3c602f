"""Subqueries that stand for one value: rows pass, as long as there is at most one."""

from collections.abc import Sequence

import pyarrow as pa

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.operators.matching import weights_found
from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import relabel
from tidemill.pipeline.plan.node import AtMostOne
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import ZSet, hash_rows
from tidemill.pipeline.zset.value import empty_rows

_NOTHING = pa.schema([])


class AtMostOneOperator(Operator):
    """Keeps how many rows there are, and raises `StepAborted` if that is more than one after a step."""

    node: AtMostOne
    cost = "O(change)"

    def states(self) -> tuple[StateSpec, ...]:
        return (StateSpec("", _NOTHING, ()),)

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        ((change,),) = inputs
        if len(change):
            access.own().add(ZSet(empty_rows(_NOTHING, len(change)), change.weights))
        if access.last_round:
            asked = empty_rows(_NOTHING, 1)
            (count,) = weights_found(access.own().lookup(asked, hash_rows(asked)), 1)
            if count > 1:
                raise StepAborted(
                    f"[SCALAR_SUBQUERY_TOO_MANY_ROWS] a subquery that stands for one value has {count} rows"
                )
        return (relabel(change, self.node.schema),)
