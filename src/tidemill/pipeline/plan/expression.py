"""Scalar expressions: small typed trees over the columns of one input.

The name of a function is the name of Catalyst's class for it (`Add`, `EqualTo`, `CaseWhen`, `Cast`), and
its options are what that class knows beyond its arguments (`mode` is ANSI, LEGACY or TRY; `zone` is a time
zone). So a reader finds each one's meaning in Spark's own documentation.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from tidemill.pipeline import types


class Expression(msgspec.Struct, frozen=True, tag_field="is"):
    """A value for each row."""

    spark_type: Any
    """In Spark's JSON form."""

    @property
    def type(self) -> pa.DataType:
        return types.from_spark(self.spark_type)

    @property
    def children(self) -> "tuple[Expression, ...]":
        return ()


class Column(Expression, frozen=True, tag="column"):
    """The value of the input's column at a position."""

    index: int

    def __str__(self) -> str:
        return f"#{self.index}"


class Literal(Expression, frozen=True, tag="literal"):
    """A constant: an Arrow IPC stream of one row and one column, which keeps every type exactly."""

    ipc: bytes
    text: str
    """How Spark SQL writes it, for people."""

    def __str__(self) -> str:
        return self.text

    @property
    def value(self) -> pa.Scalar:
        with pa.ipc.open_stream(self.ipc) as reader:
            return reader.read_next_batch().column(0)[0]


class Call(Expression, frozen=True, tag="call"):
    """A function of other expressions."""

    function: str
    arguments: "tuple[Column | Literal | Call, ...]"
    options: dict[str, str] = {}

    @property
    def children(self) -> "tuple[Expression, ...]":
        return self.arguments

    def __str__(self) -> str:
        options = "".join(f", {name}={value}" for name, value in sorted(self.options.items()))
        as_type = f" as {types.sql_name(self.type)}" if self.function == "Cast" else ""
        return f"{self.function}({', '.join(map(str, self.arguments))}{as_type}{options})"


Tree = Column | Literal | Call


def column(index: int, kind: pa.DataType) -> Column:
    return Column(types.to_spark(kind), index)


def literal(value: object, kind: pa.DataType) -> Literal:
    """A constant of that type, from a Python value that Arrow can convert to it."""
    batch = pa.record_batch([pa.array([value], kind)], names=["value"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return Literal(types.to_spark(kind), sink.getvalue().to_pybytes(), repr(value))


def call(function: str, *arguments: Tree, type: pa.DataType, **options: str) -> Call:  # noqa: A002
    return Call(types.to_spark(type), function, arguments, options)


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all below it, each before its children."""
    yield expression
    for child in expression.children:
        yield from walk(child)


def columns_of(expression: Expression) -> set[int]:
    """The positions of the input columns that it reads."""
    return {node.index for node in walk(expression) if isinstance(node, Column)}


def shift(expression: Tree, positions: "dict[int, int]") -> Tree:
    """The same expression with its columns at other positions."""
    if isinstance(expression, Column):
        return Column(expression.spark_type, positions[expression.index])
    if isinstance(expression, Call):
        arguments = tuple(shift(argument, positions) for argument in expression.arguments)
        return Call(expression.spark_type, expression.function, arguments, expression.options)
    return expression
