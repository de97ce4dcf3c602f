"""Catalyst as the front end: Spark parses, analyses and optimizes; here its plan is read.

It promises that names, types and meaning are Spark's own, and refuses by name what it cannot read. It is the
one place of `sql` that knows pyspark.

Words: a *frame* is a table or view of the pipeline as a Spark frame without rows; a *scope* says at which
position an expression finds an attribute; a *fragment* is an expression that Spark itself computes in a step,
as SQL over columns c0, c1, …

Read `session`, `plans`, `expression`, `literal`, `fragment`, `spelling`; `changing`, `clocks` and
`settings` guard the answers, `columns` and `table` the types that are kept; `origin` tells where all of it
stands in the user's text, `recompute` has Spark run a query from scratch, or a frame over
other `leaves`.
"""

from pyspark.sql import DataFrame as Frame

from tidemill.sql.catalyst.changing import settled
from tidemill.sql.catalyst.columns import check_columns
from tidemill.sql.catalyst.fragment import Fragments
from tidemill.sql.catalyst.plans import PLANS, Reader, check_unordered
from tidemill.sql.catalyst.recompute import compute, hold
from tidemill.sql.catalyst.session import Frames, Lacking, told_by_spark
from tidemill.sql.catalyst.settings import settings
from tidemill.sql.catalyst.table import columns_of, lateness_of, table_schema
from tidemill.sql.relation import AnyRelation


def read(frames: Frames, frame: Frame, names: tuple[str, ...] = ()) -> AnyRelation:
    """The query that a frame stands for, whose columns are to have these names, if any are given.

    Raises `Refused` for what cannot be kept or is not known.
    """
    analyzed = frame._jdf.queryExecution().analyzed()
    plan = settled(frames, frame)
    check_columns(analyzed, names)
    check_unordered(analyzed)
    with frames.active(frame._jdf.sparkSession()):
        return Reader(frames, Fragments(frames, analyzed), PLANS).read(frames.optimized(frame, plan))


__all__ = [
    "Frame",
    "Frames",
    "Lacking",
    "columns_of",
    "compute",
    "hold",
    "lateness_of",
    "read",
    "settings",
    "table_schema",
    "told_by_spark",
]
