"""SQL texts of expressions that run in Spark itself: written by Catalyst, and read back as a proof."""

import json
import re
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidemill.pipeline.errors import Refused
from tidemill.sql.catalyst.expression import TRANSPARENT, Scope, items, kind_of, place_of
from tidemill.sql.catalyst.intervals import CONVERSION
from tidemill.sql.catalyst.origin import place_of_word, written
from tidemill.sql.catalyst.session import Frames, jvm, unlogged
from tidemill.sql.catalyst.spelling import Spelling

NESTED = {"ArrayType", "StructType", "MapType"}
LONGEST = 100
"""So much of an expression is shown in a message."""


class Fragments:
    """Writes expressions of one query as SQL over columns c0, c1, … and proves each text by parsing it again.

    `analyzed` is the query before it was optimized, which still has the names of functions.
    """

    def __init__(self, frames: Frames, analyzed: JavaObject) -> None:
        self._spark = frames.spark
        self.analyzed = analyzed
        self._functions = frames.functions
        self._spelling = Spelling(frames, analyzed)
        self._frames: dict[str, DataFrame] = {}

    def text(self, node: JavaObject, scope: Scope, schema: Any) -> str:
        """The expression over the columns of a relation with that schema, by position.

        Raises `Refused` if Spark would not read it back as the same expression.
        """
        frame = self._frame(schema)
        wanted = self._renamed(node, scope, items(frame._jdf.queryExecution().analyzed().output()))
        with unlogged():
            for text in self._spelling.spell(wanted):
                with self._functions.callable():
                    if _reads_back(text, wanted, frame):
                        return text
        raise self._refusal(node, wanted)

    def _refusal(self, node: JavaObject, wanted: JavaObject) -> Refused:
        """What is refused, and what to do instead."""
        spelled, text, place = str(wanted.sql()), written(node), place_of(node)
        if kind_of(node) == "Alias":
            text = re.sub(rf"\s+(AS\s+)?`?{re.escape(node.name())}`?$", "", text, flags=re.IGNORECASE)
            node = node.child()
        instead = "compute it before the rows are inserted"
        if "precisetimestampconversion" in spelled:
            text, instead = "window() over this time", "compute the time in a view of its own"
            place = place_of_word("window", node, self.analyzed)
        elif "mapsort(" in spelled:
            text, instead = "a map as the key of groups", "group by array_sort(map_entries(…)) of it"
            place = place_of_word("GROUP", self.analyzed)
        text = text or str(node.sql())
        shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
        return Refused(f"{shown} is not supported yet in a view: {instead}", place=place)

    def _frame(self, schema: Any) -> DataFrame:
        key = json.dumps(schema)
        if key not in self._frames:
            fields = [{**field, "name": f"c{index}"} for index, field in enumerate(schema["fields"])]
            struct = StructType.fromJson({"type": "struct", "fields": fields})
            self._frames[key] = self._spark.createDataFrame(self._spark.sparkContext.emptyRDD(), struct)
        return self._frames[key]

    def _renamed(self, node: JavaObject, scope: Scope, columns: list[JavaObject]) -> JavaObject:
        """The expression with the columns in place of its attributes."""
        kind = kind_of(node)
        if kind in TRANSPARENT:
            return self._renamed(node.child(), scope, columns)
        if kind == CONVERSION and kind_of(node.child()) == CONVERSION:
            return self._renamed(node.child().child(), scope, columns)  # there and back: no SQL says it
        position = scope.find(node, kind)
        if position is not None:
            return columns[position]
        children = items(node.children())
        if not children:
            return node
        return _with_children(self._spark, node, [self._renamed(child, scope, columns) for child in children])


def _with_children(spark: SparkSession, node: JavaObject, children: list[JavaObject]) -> JavaObject:
    return node.withNewChildren(jvm(spark).org.apache.spark.api.python.PythonUtils.toSeq(children))


def _reads_back(text: str, wanted: JavaObject, frame: DataFrame) -> bool:
    """Whether Spark makes the same of the text as it made of the query."""
    try:
        plan = frame.selectExpr(f"{text} AS c")._jdf.queryExecution().optimizedPlan()
    except (PySparkException, Py4JJavaError):
        return False
    if kind_of(plan) == "Project" and kind_of(wanted) == "PythonUDF":
        plan = plan.child()
        return kind_of(plan).endswith("EvalPython") and bool(plan.udfs().head().semanticEquals(wanted))
    found = [one.child() for one in items(plan.expressions()) if kind_of(one) == "Alias"]
    if any(one.semanticEquals(wanted) for one in found):
        return True
    loose = _loose(frame.sparkSession, wanted)
    return any(_loose(frame.sparkSession, one).semanticEquals(loose) for one in found)


def _loose(spark: SparkSession, node: JavaObject) -> JavaObject:
    """The expression with arrays, structs and maps as constants in which there may be NULL.

    A constant tells by its type that there is none in it, or not, by what it was once compared with.
    """
    if kind_of(node) == "Literal" and kind_of(node.dataType()) in NESTED:
        literal = jvm(spark).org.apache.spark.sql.catalyst.expressions.Literal
        return literal(node.value(), node.dataType().asNullable())
    children = items(node.children())
    return _with_children(spark, node, [_loose(spark, child) for child in children]) if children else node
