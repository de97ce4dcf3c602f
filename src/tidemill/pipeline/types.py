"""Types of columns: Arrow types, one to one with Spark's.

Text, binary and arrays are the large kinds, so that a merged run may hold more than 2 GiB of them.
Spark's JSON form of a type (`DataType.json()`) is what plans and logs carry.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidemill.pipeline.errors import UnsupportedType

Json = Any

_PLAIN: dict[str, pa.DataType] = {
    "void": pa.null(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.large_string(),
    "binary": pa.large_binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_NAMES = {kind: name for name, kind in _PLAIN.items()}
_SQL_NAMES = {"void": "void", "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


_INSTEAD = {
    "varchar": "STRING",
    "char": "STRING",
    "interval": "a number of seconds, days or months",
    "time": "a number of microseconds, or STRING",
    "variant": "STRING, and functions of JSON",
}
"""By how the name of a type starts, what to keep instead."""


def from_spark(json: Json) -> pa.DataType:
    """The Arrow type of a type in Spark's JSON form. Raises `UnsupportedType` for one we cannot keep."""
    if isinstance(json, str):
        if json in _PLAIN:
            return _PLAIN[json]
        if json.startswith("decimal("):
            precision, scale = json[len("decimal(") : -1].split(",")
            return pa.decimal128(int(precision), int(scale))
        raise _refusal(json)
    match json["type"]:
        case "array":
            return pa.large_list(
                pa.field("element", from_spark(json["elementType"]), nullable=json["containsNull"])
            )
        case "map":
            value = pa.field("value", from_spark(json["valueType"]), nullable=json["valueContainsNull"])
            return pa.map_(from_spark(json["keyType"]), value)
        case "struct":
            return pa.struct([field_from_spark(field) for field in json["fields"]])
        case other:
            raise _refusal(str(other))


def _refusal(name: str) -> UnsupportedType:
    instead = next((other for start, other in _INSTEAD.items() if name.startswith(start)), "another type")
    return UnsupportedType(f"the type {name!r} cannot be kept in a pipeline: use {instead}")


def field_from_spark(json: Json) -> pa.Field:
    """A column or struct field, from Spark's JSON form of it. Only the default collation is known."""
    if (json.get("metadata") or {}).get("__COLLATIONS"):
        raise UnsupportedType("only the collation UTF8_BINARY can be kept: use lower() and the like instead")
    return pa.field(json["name"], from_spark(json["type"]), nullable=json["nullable"])


def schema_from_spark(json: Json) -> pa.Schema:
    """The Arrow schema of a struct in Spark's JSON form. What is refused is told with its column."""
    return pa.schema([_column_from_spark(field) for field in json["fields"]])


def _column_from_spark(json: Json) -> pa.Field:
    try:
        return field_from_spark(json)
    except UnsupportedType as error:
        error.happened_in(f"column {json['name']!r}", None)
        raise


def to_spark(kind: pa.DataType) -> Json:
    """The inverse of `from_spark`."""
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_large_list(kind):
        element = kind.value_field
        return {"type": "array", "elementType": to_spark(element.type), "containsNull": element.nullable}
    if pa.types.is_map(kind):
        return {
            "type": "map",
            "keyType": to_spark(kind.key_type),
            "valueType": to_spark(kind.item_type),
            "valueContainsNull": kind.item_field.nullable,
        }
    if pa.types.is_struct(kind):
        return schema_to_spark(kind)
    raise UnsupportedType(f"the type {kind} cannot be kept in a pipeline")


def schema_to_spark(fields: pa.Schema | pa.StructType) -> Json:
    """The inverse of `schema_from_spark`."""
    return {
        "type": "struct",
        "fields": [
            {"name": field.name, "type": to_spark(field.type), "nullable": field.nullable, "metadata": {}}
            for field in fields
        ],
    }


def sql_name(kind: pa.DataType) -> str:
    """The type as Spark SQL spells it, for people: `array<bigint>`, `struct<a:int>`."""
    if kind in _NAMES:
        return _SQL_NAMES.get(_NAMES[kind], _NAMES[kind])
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_large_list(kind):
        return f"array<{sql_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{sql_name(kind.key_type)},{sql_name(kind.item_type)}>"
    return f"struct<{','.join(f'{field.name}:{sql_name(field.type)}' for field in kind)}>"


def conform(arrays: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    """Arrays as Spark or pandas gave them, in exactly the types that are kept. The values do not change."""
    columns = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(arrays, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def plain(kind: pa.DataType) -> pa.DataType:
    """The type with the small kinds of text, binary and array, which every reader of Arrow knows."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(plain(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(plain(kind.key_type), kind.item_field.with_type(plain(kind.item_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(plain(field.type)) for field in kind])
    return kind


def plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(plain(field.type)) for field in schema])
