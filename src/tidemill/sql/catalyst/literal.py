"""Constants of Catalyst, with their exact values."""

import json
from decimal import Decimal
from typing import Any

import msgspec
from py4j.java_gateway import JavaObject

from tidemill.pipeline import types
from tidemill.pipeline.errors import UnsupportedType
from tidemill.pipeline.plan import expression
from tidemill.pipeline.plan.expression import Call, Literal


def read(constant: JavaObject) -> Literal | Call:
    """The constant; one of a type that we do not keep becomes a call of `Literal`, which only Spark runs."""
    return of(constant.value(), constant.dataType(), constant.sql())


def of(value: Any, kind: JavaObject, text: str) -> Literal | Call:
    """The constant with that value, in Catalyst's internal form."""
    spark_type = json.loads(kind.json())
    try:
        arrow_type = types.from_spark(spark_type)
    except UnsupportedType:
        return Call(spark_type, "Literal", (), {"sql": text})
    plain = expression.literal(_value(value, kind, spark_type), arrow_type)
    return msgspec.structs.replace(plain, text=text)


def _value(value: Any, kind: JavaObject, spark_type: Any) -> Any:
    """The Python value that Arrow converts, from the one that Catalyst keeps: dates as days, and so on."""
    if value is None:
        return None
    if isinstance(spark_type, dict):
        return _nested(value, kind, spark_type)
    if spark_type == "string":
        return value.toString()
    if spark_type.startswith("decimal"):
        return Decimal(value.toString())
    if spark_type == "binary":
        return bytes(value)
    return value


def _nested(value: JavaObject, kind: JavaObject, spark_type: Any) -> Any:
    match spark_type["type"]:
        case "array":
            return _items(value, kind.elementType(), spark_type["elementType"])
        case "map":
            keys = _items(value.keyArray(), kind.keyType(), spark_type["keyType"])
            values = _items(value.valueArray(), kind.valueType(), spark_type["valueType"])
            return list(zip(keys, values, strict=True))
        case _:
            fields = enumerate(spark_type["fields"])
            return {
                field["name"]: _value(value.get(index, inner), inner, field["type"])
                for index, field in fields
                for inner in [kind.apply(index).dataType()]
            }


def _items(array: JavaObject, kind: JavaObject, spark_type: Any) -> list[Any]:
    return [_value(array.get(index, kind), kind, spark_type) for index in range(array.numElements())]
