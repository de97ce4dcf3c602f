"""Decimals as whole numbers: how Catalyst adds up short ones, in terms of functions that are proved."""

from decimal import Decimal

import msgspec
import pyarrow as pa

from tidemill.pipeline.plan.expression import Call, Literal, Tree, call, literal
from tidemill.pipeline.types import from_spark


def unscaled(value: Tree) -> Call:
    """The decimal without its point, as a long: `UnscaledValue`. Catalyst asks for it when it fits."""
    kind = value.type
    factor = _constant(Decimal(10**kind.scale), pa.decimal128(kind.scale + 1, 0))
    wide = pa.decimal128(kind.precision + kind.scale + 2, kind.scale)
    product = call("Multiply", value, factor, type=wide, mode="ANSI")
    return call("Cast", product, type=pa.int64(), mode="ANSI")


def scaled(value: Tree, spark_type: str) -> Call:
    """The long with a point put in, as a decimal of that type: `MakeDecimal`."""
    kind = from_spark(spark_type)
    whole = call("Cast", value, type=pa.decimal128(20, 0), mode="ANSI")
    unit = _constant(Decimal(1).scaleb(-kind.scale), pa.decimal128(kind.scale + 1, kind.scale))
    product = call("Multiply", whole, unit, type=pa.decimal128(22 + kind.scale, kind.scale), mode="ANSI")
    return call("Cast", product, type=kind, mode="ANSI")


def _constant(value: Decimal, kind: pa.DataType) -> Literal:
    return msgspec.structs.replace(literal(value, kind), text=f"{value}BD")
