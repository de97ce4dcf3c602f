"""The columns of CREATE TABLE, with all of Spark's spellings of types."""

import json
from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from tidemill.pipeline import types
from tidemill.pipeline.errors import Refused
from tidemill.sql.catalyst.session import jvm
from tidemill.sql.statements import CreateTable


def table_schema(spark: SparkSession, statement: CreateTable) -> tuple[Any, tuple[int, ...]]:
    """The schema in Spark's JSON form, and the positions of the primary key, whose columns are not nullable.

    Raises `Refused` for a type that Spark does not know, `UnsupportedType` for one that we cannot keep.
    """
    where = f"{statement.place}: table {statement.name}: "
    parse = jvm(spark).org.apache.spark.sql.types.StructType.fromDDL
    try:
        schema = json.loads(parse(", ".join(statement.columns)).json())
    except ParseException as error:
        raise Refused(where + str(error).strip().splitlines()[0]) from error
    names = [field["name"] for field in schema["fields"]]
    folded = [name.lower() for name in names]
    for name in (*statement.key, *names):
        if folded.count(name.lower()) != 1:
            raise Refused(
                f"{where}column {name} is {'not there' if name.lower() not in folded else 'there twice'}"
            )
    if len(set(statement.key)) != len(statement.key):
        raise Refused(f"{where}the PRIMARY KEY names a column twice")
    key = tuple(folded.index(name.lower()) for name in statement.key)
    for index in key:
        schema["fields"][index]["nullable"] = False
    types.schema_from_spark(schema)
    return schema, key
