"""Filter and projection: linear, so they work on a change as on a table."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from tidemill.pipeline import expressions
from tidemill.pipeline.operators.operator import Access, Flow, Operator
from tidemill.pipeline.operators.rows import shaped
from tidemill.pipeline.plan.expression import Tree, columns_of, shift
from tidemill.pipeline.plan.node import Node, Select
from tidemill.pipeline.zset import ZSet, pick
from tidemill.pipeline.zset.value import Mask


class SelectOperator(Operator):
    """Keeps the rows where `where` is true, and of those alone computes the columns, which may raise."""

    node: Select
    cost = "O(change)"

    def __init__(self, node: Select, inputs: Sequence[Node]) -> None:
        super().__init__(node, inputs)
        self._where = condition(node.where) if node.where is not None else None
        # What only `where` reads is not carried over.
        self._used = sorted(set[int]().union(*map(columns_of, node.columns)))
        positions = {column: place for place, column in enumerate(self._used)}
        self._columns = [expressions.compile(shift(column, positions)) for column in node.columns]

    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:  # noqa: ARG002
        ((change,),) = inputs
        if not len(change):
            return (ZSet.empty(self.node.schema),)
        kept = change.with_rows(pick(change.rows, self._used))
        if self._where is not None:
            kept = kept.filter(self._where(change.rows))
        columns = [column(kept.rows) for column in self._columns]
        return (kept.with_rows(shaped(columns, self.node.schema, len(kept))),)


def condition(tree: Tree) -> Callable[[pa.RecordBatch], Mask]:
    """A function that says of each row whether the expression is true, and not false or NULL."""
    evaluate = expressions.compile(tree)

    def mask(rows: pa.RecordBatch) -> Mask:
        found = evaluate(rows)
        return np.asarray(
            (found.fill_null(False) if found.null_count else found).to_numpy(zero_copy_only=False)
        )

    return mask
