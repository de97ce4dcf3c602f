"""The columns of CREATE TABLE, with all of Spark's spellings of types."""

import json
from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from tidemill.pipeline import types
from tidemill.pipeline.errors import Refused, UnsupportedType
from tidemill.pipeline.ingest import WEIGHT
from tidemill.sql.catalyst.intervals import length_us
from tidemill.sql.catalyst.session import jvm, told
from tidemill.sql.statements import CreateRecursiveView, CreateTable, Place

TIMES = ("timestamp", "timestamp_ntz", "date")


def table_schema(spark: SparkSession, statement: CreateTable) -> tuple[Any, tuple[int, ...]]:
    """The schema in Spark's JSON form, and the positions of the primary key, whose columns are not nullable.

    Raises `Refused` for a type that Spark does not know, `UnsupportedType` for one that we cannot keep, both
    with the table, the column and its place.
    """
    where = f"{statement.place}: table {statement.name}: "
    definitions = zip(statement.columns, statement.places, strict=True)
    fields = [_field(spark, statement.name, text, place) for text, place in definitions]
    names = [field["name"] for field in fields]
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
        fields[index]["nullable"] = False
    return {"type": "struct", "fields": fields}, key


def lateness_of(spark: SparkSession, statement: CreateTable, schema: Any) -> tuple[int, int] | None:
    """The column by whose values rows come roughly in order, and by how many microseconds they may be behind.

    Raises `Refused` for one that is no time, or an interval that is negative or not always as long.
    """
    if statement.lateness is None:
        return None
    name, text = statement.lateness
    where = f"{statement.place}: table {statement.name}: LATENESS of column {name}: "
    names = [field["name"].lower() for field in schema["fields"]]
    position = names.index(name.lower())
    if schema["fields"][position]["type"] not in TIMES:
        raise Refused(f"{where}it is no TIMESTAMP, TIMESTAMP_NTZ or DATE")
    try:
        parser = spark._jsparkSession.sessionState().sqlParser()
        length = length_us(parser.parseExpression(text))
    except ParseException as error:
        raise Refused(where + told(error)) from error
    if length is None or length < 0:
        raise Refused(f"{where}{text} is not an interval of days, hours or less from 0 on")
    return position, length


def columns_of(spark: SparkSession, view: CreateRecursiveView) -> Any:
    """The columns that a recursive view declares, in Spark's JSON form. Raises as `table_schema`."""
    as_table = CreateTable(view.name, view.place, view.text, view.columns, view.places, (), False)
    schema, _ = table_schema(spark, as_table)
    return schema


def _field(spark: SparkSession, table: str, definition: str, place: Place) -> Any:
    """One column, in Spark's JSON form."""
    where = f"{place}: table {table}: "
    try:
        schema = json.loads(jvm(spark).org.apache.spark.sql.types.StructType.fromDDL(definition).json())
    except ParseException as error:
        raise Refused(where + told(error)) from error
    [field] = schema["fields"]
    if field["name"].lower() == WEIGHT:
        raise Refused(f"{where}the name {field['name']} is taken by the weights of changes: choose another")
    try:
        types.schema_from_spark(schema)
    except UnsupportedType as error:
        column = f"column {field['name']!r}: "
        raise UnsupportedType(f"{where}{column}{str(error).removeprefix(column)}") from error
    return field
