"""The columns of CREATE TABLE, with all of Spark's spellings of types."""

import json
from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from tidemill.pipeline import types
from tidemill.pipeline.errors import Place, Refused, UnsupportedType
from tidemill.pipeline.ingest import WEIGHT
from tidemill.sql.catalyst.intervals import length_us
from tidemill.sql.catalyst.session import jvm, told, unlogged
from tidemill.sql.statements import CreateRecursiveView, CreateTable

TIMES = ("timestamp", "timestamp_ntz", "date")


def table_schema(spark: SparkSession, statement: CreateTable) -> tuple[Any, tuple[int, ...]]:
    """The schema in Spark's JSON form, and the positions of the primary key, whose columns are not nullable.

    Raises `Refused` for a type that Spark does not know, `UnsupportedType` for one that we cannot keep, both
    with the table, the column and its place.
    """
    try:
        definitions = zip(statement.columns, statement.places, strict=True)
        fields = [_field(spark, text, place) for text, place in definitions]
        key = _key([field["name"].lower() for field in fields], statement)
    except Refused as error:
        error.happened_in(f"table {statement.name}", statement.place)
        raise
    for index in key:
        fields[index]["nullable"] = False
    return {"type": "struct", "fields": fields}, key


def _key(names: list[str], statement: CreateTable) -> tuple[int, ...]:
    for name, place in zip(names, statement.places, strict=True):
        if names.count(name) > 1:
            raise Refused(f"column {name} is there twice: give it another name", place=place)
    wanted = [name.lower() for name in statement.key]
    for name, folded in zip(statement.key, wanted, strict=True):
        if folded not in names:
            raise Refused(f"column {name} of the PRIMARY KEY is not there", place=statement.key_place)
        if wanted.count(folded) > 1:
            raise Refused("the PRIMARY KEY names a column twice: once will do", place=statement.key_place)
    return tuple(map(names.index, wanted))


def lateness_of(spark: SparkSession, statement: CreateTable, schema: Any) -> tuple[int, int] | None:
    """The column by whose values rows come roughly in order, and by how many microseconds they may be behind.

    Raises `Refused` for one that is no time, or an interval that is negative or not always as long.
    """
    if statement.lateness is None:
        return None
    name, text = statement.lateness
    position = [field["name"].lower() for field in schema["fields"]].index(name.lower())
    where, place = f"table {statement.name}: LATENESS of column {name}: ", statement.places[position]
    if schema["fields"][position]["type"] not in TIMES:
        raise Refused(f"{where}it is no TIMESTAMP, TIMESTAMP_NTZ or DATE", place=place)
    try:
        parser = spark._jsparkSession.sessionState().sqlParser()
        length = length_us(parser.parseExpression(text))
    except ParseException as error:
        raise Refused(where + told(error), place=place) from error
    if length is None or length < 0:
        raise Refused(f"{where}{text} is not an interval of days, hours or less from 0 on", place=place)
    return position, length


def columns_of(spark: SparkSession, view: CreateRecursiveView) -> Any:
    """The columns that a recursive view declares, in Spark's JSON form. Raises as `table_schema`."""
    fields = [_field(spark, *one) for one in zip(view.columns, view.places, strict=True)]
    return {"type": "struct", "fields": fields}


def _field(spark: SparkSession, definition: str, place: Place) -> Any:
    """One column, in Spark's JSON form."""
    try:
        with unlogged():
            schema = json.loads(jvm(spark).org.apache.spark.sql.types.StructType.fromDDL(definition).json())
    except ParseException as error:
        raise Refused(told(error), place=place) from error
    [field] = schema["fields"]
    if field["name"].lower() == WEIGHT:
        raise Refused(
            f"the name {field['name']} is taken by the weights of changes: choose another", place=place
        )
    try:
        types.schema_from_spark(schema)
    except UnsupportedType as error:
        error.place = place
        raise
    return field
