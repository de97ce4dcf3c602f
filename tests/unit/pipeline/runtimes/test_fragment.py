"""Fragments are handed what they read; what a job raised is told as an error of the data, with the views."""

import traceback
from typing import NamedTuple

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.plan.node import SparkSelect
from tidemill.pipeline.runtimes import batch
from tidemill.pipeline.runtimes.fragment import as_abort, schema_of
from tidemill.pipeline.runtimes.functions import Functions
from unit.sql.scripts import Script

SCRIPT = """
CREATE TABLE t (k STRING);
CREATE VIEW choosy AS SELECT picky(k) AS k FROM t;
CREATE VIEW easy AS SELECT plain(k) AS k FROM t;
CREATE VIEW coded AS SELECT soundex(k) AS k FROM t
"""


def picky(text: str) -> str:
    raise ValueError(f"not {text}")


class Plain:
    """An object that can be called."""

    def __call__(self, text: str) -> str:
        return text


class Planned(NamedTuple):
    circuit: Circuit
    functions: Functions

    def abort(self, text: str) -> StepAborted | None:
        return as_abort(PySparkException(text), self.circuit, self.functions)

    @property
    def fragments(self) -> list[int]:
        return [at for at, node in enumerate(self.circuit.nodes) if isinstance(node, SparkSelect)]


@pytest.fixture
def planned(spark: SparkSession) -> Planned:
    spark.udf.register("picky", picky, "string")
    spark.udf.register("plain", Plain(), "string")
    script = Script(spark)
    return Planned(script.run(SCRIPT).circuit, script.frames.functions)


def test_a_python_function_in_the_traceback_tells_the_fragment(planned: Planned) -> None:
    with pytest.raises(ValueError, match="not a") as raised:
        picky("a")
    aborted = planned.abort("".join(traceback.format_exception(raised.value)))

    assert aborted is not None
    assert (aborted.view, aborted.operator) == ("choosy", f"sparkselect {planned.fragments[0]}")
    assert "ValueError: not a" in str(aborted)


def test_the_lines_of_an_object_are_those_of_its_call(planned: Planned) -> None:
    line = Plain.__call__.__code__.co_firstlineno + 1
    aborted = planned.abort(f'File "{__file__}", line {line}, in __call__\nTypeError: no text')

    assert aborted is not None
    assert aborted.view == "easy"


def test_the_sql_that_spark_points_at_tells_the_fragment(planned: Planned) -> None:
    position = planned.fragments[-1]
    aborted = planned.abort(
        f"[DIVIDE_BY_ZERO] Division by zero.\n== SQL ==\nnamed_struct('c0', 1 / c0) AS `out{position}`\n^^^"
    )

    assert aborted is not None
    assert (aborted.view, aborted.operator) == ("coded", f"sparkselect {position}")
    assert "Division by zero" in str(aborted)


def test_where_nothing_tells_the_fragment_all_are_named(planned: Planned) -> None:
    aborted = planned.abort("[INVALID_URL] The url is invalid.")

    assert aborted is not None
    assert (aborted.view, aborted.operator) == ("choosy, easy, coded", "sparkselect")


def test_what_we_raised_ourselves_or_the_machinery_did_is_no_error_of_the_data(planned: Planned) -> None:
    assert planned.abort(f'File "{batch.__file__}", line 1\nValueError: ours') is None
    assert as_abort(Py4JError("java.lang.OutOfMemoryError"), planned.circuit, planned.functions) is None


def test_a_fragment_is_handed_the_columns_that_it_reads(spark: SparkSession) -> None:
    circuit = (
        Script(spark)
        .run(
            """
            CREATE TABLE t (a STRING, b STRING, c STRING, d STRING);
            CREATE VIEW v AS SELECT d, soundex(b) AS coded FROM t WHERE soundex(b) <> 'c0'
            """
        )
        .circuit
    )
    [position] = [at for at, node in enumerate(circuit.nodes) if isinstance(node, SparkSelect)]

    sent = schema_of(circuit, circuit.stages[position] - 1)[f"in{position}"].dataType

    assert isinstance(sent, StructType)
    assert sent.names == ["c0", "c1", "c3"]  # the first because the text says c0
