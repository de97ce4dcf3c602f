"""Subqueries that stand for one value: rows pass, as long as there is at most one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.operators.matching import weights_found
from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import relabel
from tidemill.pipeline.plan.node import AtMostOne, Node
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import ZSet, concat, consolidate, hash_rows, pick


@dataclass(frozen=True, slots=True)
class _Touched:
    """The keys that the rounds of a step brought so far. `spine` tells one run of a step from another."""

    spine: Any
    keys: tuple[ZSet, ...]


class AtMostOneOperator(Operator):
    """Keeps how many rows each key has, and raises `StepAborted` if that is more than one after a step."""

    node: AtMostOne
    cost = "O(change · log state)"

    def __init__(self, node: AtMostOne, inputs: Sequence[Node]) -> None:
        super().__init__(node, inputs)
        self._key = node.key or ()
        self._schema = pa.schema([node.schema.field(index) for index in self._key])
        self._touched: _Touched | None = None

    def states(self) -> tuple[StateSpec, ...]:
        return (StateSpec("", self._schema, tuple(range(len(self._schema)))),)

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        ((change,),) = inputs
        change = relabel(change, self.node.schema)
        keys = ZSet(pick(change.rows, self._key), change.weights)
        if len(keys):
            access.own().add(keys)
        known, self._touched = self._touched, None
        before = known.keys if known and known.spine is access.own() else ()
        if not access.last_round:
            self._touched = _Touched(access.own(), (*before, keys))
        else:
            self._check(concat((*before, keys), self._schema), access)
        return (change,)

    def _check(self, keys: ZSet, access: Access) -> None:
        asked = consolidate(ZSet(keys.rows, np.ones(len(keys), np.int64))).rows
        found = access.own().lookup(asked, hash_rows(asked))
        count = weights_found(found, asked.num_rows).max(initial=0)
        if count > 1:
            raise StepAborted(
                f"[SCALAR_SUBQUERY_TOO_MANY_ROWS] a subquery that stands for one value has {count} rows"
            )
