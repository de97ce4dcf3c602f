"""Spark's optimized plan, read as relations: one function for each kind of plan, found in `PLANS`.

Read `reader`, `schema`, `select`, then the others; `refusal` names what nobody reads.
"""

from tidemill.sql.catalyst.plans.aggregate import read_aggregate
from tidemill.sql.catalyst.plans.constant import read_constant, read_one_row
from tidemill.sql.catalyst.plans.expand import read_expand
from tidemill.sql.catalyst.plans.generate import read_generate
from tidemill.sql.catalyst.plans.join import read_join
from tidemill.sql.catalyst.plans.loop import read_again, read_loop
from tidemill.sql.catalyst.plans.order import check_unordered, read_group_limit, read_limit
from tidemill.sql.catalyst.plans.reader import Read, Reader
from tidemill.sql.catalyst.plans.select import read_filter, read_leaf, read_project, read_python, read_same
from tidemill.sql.catalyst.plans.union import read_union
from tidemill.sql.catalyst.plans.window import read_window

PLANS: dict[str, Read] = {
    "LogicalRDD": read_leaf,
    "Project": read_project,
    "Filter": read_filter,
    "BatchEvalPython": read_python,
    "ArrowEvalPython": read_python,
    "Join": read_join,
    "Aggregate": read_aggregate,
    "Expand": read_expand,
    "Union": read_union,
    "Generate": read_generate,
    "LocalRelation": read_constant,
    "Range": read_constant,
    "OneRowRelation": read_one_row,
    "UnionLoop": read_loop,
    "UnionLoopRef": read_again,
    "GlobalLimit": read_limit,
    "Offset": read_limit,
    "WindowGroupLimit": read_group_limit,
    "Window": read_window,
    # Found alone, Catalyst has put it there since a limit further up takes no more rows.
    "LocalLimit": read_same,
    "Sort": read_same,
    "Repartition": read_same,
    "RepartitionByExpression": read_same,
    "RebalancePartitions": read_same,
    "ReturnAnswer": read_same,
    "ResolvedHint": read_same,
}
"""By the name of Catalyst's class."""

__all__ = ["PLANS", "Reader", "check_unordered"]
