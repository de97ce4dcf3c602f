"""Queries of views over frames that have rows, for Spark to compute from scratch."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tidemill.sql.catalyst.changing import at_moment
from tidemill.sql.catalyst.leaves import with_rows
from tidemill.sql.catalyst.session import Frames

# A session that is tuned for small steps has them off, which would make Spark look slow at large queries.
_FOR_LARGE_QUERIES = ("spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage")


def compute(
    frames: Frames, query: str | DataFrame, named: Callable[[str], DataFrame | None], clock_ms: int
) -> DataFrame:
    """The query of a view, or its frame, over what is `named` in it, at the time that the clock shows.

    None leaves a name alone. Runs under the session's settings, which it does not touch.
    """
    session = frames.clone(query if isinstance(query, str) else "", named)
    for name in _FOR_LARGE_QUERIES:
        session.conf().set(name, "true")
    if isinstance(query, str):
        parsed = session.sessionState().sqlParser().parseQuery(query)
        plan = frames.rows(session, parsed).queryExecution().analyzed()
    else:
        plan = with_rows(frames, query._jdf.queryExecution().analyzed(), named)
    return DataFrame(frames.rows(session, at_moment(frames.spark, plan, clock_ms)), frames.spark)


def hold(frames: Frames, rows: pa.Table, schema: Any) -> DataFrame:
    """Rows of this process as a frame; `schema` in Spark's JSON form."""
    return frames.spark.createDataFrame(rows, StructType.fromJson(schema))
