"""Rows that a query states itself: VALUES, range(), a SELECT without FROM, a branch that is always empty."""

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from tidemill.pipeline import types
from tidemill.pipeline.errors import Refused
from tidemill.pipeline.ingest import canonical
from tidemill.pipeline.zset import ZSet, to_ipc
from tidemill.pipeline.zset.value import batch, empty_rows
from tidemill.sql import relation
from tidemill.sql.catalyst.expression import kind_of
from tidemill.sql.catalyst.origin import origin_of
from tidemill.sql.catalyst.plans.reader import Reader
from tidemill.sql.catalyst.plans.schema import schema_of
from tidemill.sql.catalyst.session import jvm

MOST = 100_000
"""So many rows may a plan hold; it is read whenever a pipeline is opened."""


def read_constant(reader: Reader, plan: JavaObject) -> relation.Constant:
    """The rows, as Spark computes them."""
    schema = schema_of(plan)
    fields = types.schema_from_spark(schema)  # a type that cannot be kept is refused here
    count = int(str(plan.numElements() if kind_of(plan) == "Range" else plan.data().size()))
    if count > MOST:
        raise Refused(f"{count} constant rows are too many for a view: insert them into a table")
    found = ZSet.empty(fields)
    if count and len(fields):
        spark = reader.frames.spark
        rows = jvm(spark).org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
        table = DataFrame(rows, spark).toArrow().combine_chunks()
        columns = types.conform([column.combine_chunks() for column in table.columns], fields).columns
        found = ZSet.of(batch([canonical(column) for column in columns], fields, count))
    elif count:
        found = ZSet.of(empty_rows(fields, count))
    return relation.Constant(schema, origin_of(plan), to_ipc(found).to_pybytes())


def read_one_row(reader: Reader, plan: JavaObject) -> relation.Constant:  # noqa: ARG001
    """A row without columns."""
    schema = schema_of(plan)
    row = ZSet.of(empty_rows(types.schema_from_spark(schema), 1))
    return relation.Constant(schema, origin_of(plan), to_ipc(row).to_pybytes())
