"""What window functions compute: for each row a value of the rows around it, for many partitions at once.

Words: a *partition* is the rows that are equal in the keys; *peers* are those of them that are equal in the
order; a *frame* is what of its partition a function sees from a row, as two places.

Read `partitions` (rows in order), `frames`, then the functions: `ranks`, `values`, `extremes`, `totals`, and
`pairs` for all others. `functions` finds the one of a call; `reach` says which rows a change may concern.
"""

from tidemill.pipeline.operators.windows.functions import compile_call
from tidemill.pipeline.operators.windows.partitions import Ordering, Partitions, sort_rows

__all__ = ["Ordering", "Partitions", "sort_rows", "compile_call"]
