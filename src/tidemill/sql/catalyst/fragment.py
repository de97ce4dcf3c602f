"""SQL texts of expressions that run in Spark itself: written by Catalyst, and read back as a proof."""

import json
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidemill.pipeline.errors import Refused
from tidemill.sql.catalyst.expression import TRANSPARENT, Scope, items, kind_of, place_of
from tidemill.sql.catalyst.session import jvm


class Fragments:
    """Writes expressions as SQL over columns c0, c1, … and proves each text by parsing it again."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._frames: dict[str, DataFrame] = {}

    def text(self, node: JavaObject, scope: Scope, schema: Any) -> str:
        """The expression over the columns of a relation with that schema, by position.

        Raises `Refused` if Spark would not read it back as the same expression.
        """
        frame = self._frame(schema)
        columns = items(frame._jdf.queryExecution().analyzed().output())
        wanted = self._renamed(node, scope, columns)
        text = str(wanted.sql())
        if not self._reads_back(text, wanted, frame):
            raise Refused(
                f"{place_of(node)}{node.sql()} is not supported yet in a view: "
                "compute it before the rows are inserted"
            )
        return text

    def _frame(self, schema: Any) -> DataFrame:
        key = json.dumps(schema)
        if key not in self._frames:
            fields = [{**field, "name": f"c{index}"} for index, field in enumerate(schema["fields"])]
            struct = StructType.fromJson({"type": "struct", "fields": fields})
            empty = self._spark.sparkContext.emptyRDD()
            self._frames[key] = self._spark.createDataFrame(empty, struct)
        return self._frames[key]

    def _renamed(self, node: JavaObject, scope: Scope, columns: list[JavaObject]) -> JavaObject:
        kind = kind_of(node)
        if kind in TRANSPARENT:
            return self._renamed(node.child(), scope, columns)
        position = scope.find(node, kind)
        if position is not None:
            return columns[position]
        children = items(node.children())
        if not children:
            return node
        renamed = [self._renamed(child, scope, columns) for child in children]
        return node.withNewChildren(self._sequence(renamed))

    def _sequence(self, nodes: list[JavaObject]) -> JavaObject:
        return jvm(self._spark).org.apache.spark.api.python.PythonUtils.toSeq(nodes)

    def _reads_back(self, text: str, wanted: JavaObject, frame: DataFrame) -> bool:
        try:
            read = frame.selectExpr(f"{text} AS c")
            plan = read._jdf.queryExecution().optimizedPlan()
        except (PySparkException, Py4JJavaError):
            return False
        return any(
            found.child().semanticEquals(wanted)
            for found in items(plan.expressions())
            if kind_of(found) == "Alias"
        )
