"""The examples that Spark's own documentation has for its functions, as queries over a table of one row.

Constants of an example are lifted into expressions over a column, so that Spark cannot compute them
beforehand: `IF(yes, 'Spark', NULL)` is 'Spark' where `yes` is true.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill.pipeline import types
from tidemill.pipeline.errors import UnsupportedType
from tidemill.sql.catalyst.session import unlogged
from tidemill.sql.words import STRING

TABLE = "one"
COLUMN = "yes"
GENERATORS = "generator_funcs"
EXAMPLE = re.compile(r"^\s*> SELECT\s+(.*?);\s*$", re.DOTALL | re.MULTILINE)
ORDERED = re.compile(r"\s+ORDER BY [\w, .]+$")
"""A view has no order."""
ALIAS = re.compile(r"\s+AS\s+\w+$", re.IGNORECASE)
WORD = re.compile(rf"{STRING.pattern}|\.?\w[\w.]*|=>|\S", STRING.flags)
CONSTANT = re.compile(rf"(?!r)(?:{STRING.pattern})|\d*\.?\d+", STRING.flags)
TYPED = {"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME", "INTERVAL", "X", "AS", "=>"}
"""What may stand before a constant and makes it another one."""


@dataclass(frozen=True, slots=True)
class Function:
    """`examples` are what stands between SELECT and the semicolon."""

    name: str
    group: str
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """An expression over the table of one row; or a query, if it has rows or columns of its own."""

    function: str
    text: str
    is_query: bool


def functions(spark: SparkSession) -> list[Function]:
    """All functions that Spark brings along, by name; those that make tables at the end."""
    java: Any = spark._jvm
    analysis = java.org.apache.spark.sql.catalyst.analysis
    return [
        function
        for registry in (analysis.FunctionRegistry.builtin(), analysis.TableFunctionRegistry.builtin())
        for function in sorted(_listed(registry), key=lambda one: one.name)
    ]


def _listed(registry: Any) -> Iterator[Function]:
    names = registry.listFunction()
    for index in range(names.size()):
        name = names.apply(index)
        info = registry.lookupFunction(name).get()
        found = tuple(ORDERED.sub("", one) for one in EXAMPLE.findall(str(info.getExamples())))
        yield Function(str(name.funcName()), str(info.getGroup()), found)


def examples(spark: SparkSession, function: Function) -> Iterator[Example]:
    """The examples of a function that Spark can analyse, in the first form that it can."""
    for example in function.examples:
        for form in _forms(ALIAS.sub("", example)):
            kinds = _kinds(spark, f"{form} FROM {TABLE}")
            if len(kinds) == 1 and function.group == GENERATORS:
                yield Example(function.name, _query(f"{form} FROM {TABLE}", kinds), is_query=True)
                break
            if len(kinds) == 1:
                yield Example(function.name, _kept(f"({form})", kinds[0]), is_query=False)
                break
        else:
            if kinds := _kinds(spark, example):
                yield Example(function.name, _query(example, kinds), is_query=True)


def _kinds(spark: SparkSession, example: str) -> list[Any]:
    """The types of its columns; none if Spark refuses it."""
    try:
        with unlogged():
            fields = json.loads(spark.sql(f"SELECT {example}").schema.json())["fields"]
    except (PySparkException, Py4JJavaError):
        return []
    return [field["type"] for field in fields]


def _query(example: str, kinds: list[Any]) -> str:
    """With names of its own for the columns."""
    names = [f"x{index}" for index in range(len(kinds))]
    shown = [f"{_kept(name, kind)} AS {name}" for name, kind in zip(names, kinds, strict=True)]
    return f"SELECT {', '.join(shown)} FROM (SELECT {example}) AS q({', '.join(names)})"


def _kept(text: str, kind: Any) -> str:
    """What is of a type that cannot be kept is shown as text."""
    try:
        types.from_spark(kind)
    except UnsupportedType:
        return f"CAST({text} AS STRING)"
    return text


def _forms(example: str) -> tuple[str, ...]:
    """The example with all of its constants lifted, with the first alone, and as it is."""
    places = list(_constants(example))
    return tuple(dict.fromkeys((_lifted(example, places), _lifted(example, places[:1]), example)))


def _constants(text: str) -> Iterator[tuple[int, int]]:
    """Where its constants start and end."""
    before = ""
    for word in WORD.finditer(text):
        if CONSTANT.fullmatch(word[0]) and before.upper() not in TYPED:
            yield word.span()
        before = word[0]


def _lifted(text: str, places: list[tuple[int, int]]) -> str:
    for start, end in reversed(places):
        text = f"{text[:start]}IF({COLUMN}, {text[start:end]}, NULL){text[end:]}"
    return text
