"""Z-sets: rows with integer weights, and the few vectorized acts on them that every operator uses.

It promises exactness: rows are grouped, matched and added up by their true values, never by hash alone, and
a sum of weights that does not fit is an error. Equality is that of Spark's GROUP BY: NULL equals NULL, NaN
equals NaN, -0.0 equals 0.0, and arrays, maps and structs are equal when their parts are.

    z = ZSet(rows, weights)                  # weights: one per row, or k per row for linear totals
    consolidate(z)                           # equal rows added up, zeros dropped
    groups = group_rows(rows, (0, 2))        # which rows have equal values in these columns
    hash_rows(rows, (0, 2))                  # 64 bits a row; the same for ever, as they are in files

Read `value` (the ZSet), `hashing`, `equality`, `groups`, `weights` (sums and products that do not wrap),
`ipc` (as bytes).
"""

from tidemill.pipeline.zset.equality import equal_arrays, equal_rows, null_mask
from tidemill.pipeline.zset.groups import Groups, consolidate, group_rows
from tidemill.pipeline.zset.hashing import SHARDS, hash_rows, shard_of
from tidemill.pipeline.zset.ipc import from_ipc, to_ipc
from tidemill.pipeline.zset.value import ZSet, concat, concat_rows, pick
from tidemill.pipeline.zset.weights import add_checked, multiply_checked, sum_at, sum_groups

__all__ = [
    "ZSet",
    "Groups",
    "concat",
    "concat_rows",
    "pick",
    "consolidate",
    "group_rows",
    "hash_rows",
    "shard_of",
    "SHARDS",
    "equal_rows",
    "equal_arrays",
    "null_mask",
    "add_checked",
    "multiply_checked",
    "sum_at",
    "sum_groups",
    "to_ipc",
    "from_ipc",
]
