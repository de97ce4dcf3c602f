"""Every function that Spark brings along is computed as Spark computes it, or refused by name.

What is tried are the examples of Spark's documentation: by default of every twelfth function, with
TIDEMILL_COVERAGE=all of every one.
"""

import os
import re
from collections import Counter
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from property.function_examples import COLUMN, TABLE, Example, Function, examples, functions
from property.judge import rows
from property.spark_oracle import QUICK, Bag, differences, rows_of
from tidemill import Pipeline
from tidemill.pipeline.errors import Refused

pytestmark = pytest.mark.timeout(3600)

EVERY = os.environ.get("TIDEMILL_COVERAGE") == "all"
STRIDE = 1 if EVERY else 12
PACK = 40
"""So many examples are columns of one view."""
ROW = pa.table({COLUMN: [True]})

REFUSED = {
    "gives another value each time": (
        r"aes_encrypt|(try_)?reflect|java_method|rand(n|om|str)?|uniform|uuid|shuffle|input_file_.*"
        r"|monotonically_increasing_id|spark_partition_id|(current_|local)time(stamp)?|now"
        r"|cur(rent_)?date|unix_timestamp"
    ),
    "is what the session says": (r"(current_|session_)?user|current_(catalog|database|schema|path)|version"),
    "is an approximation": (r"approx_(count_distinct|percentile|top_k)|percentile_approx|histogram_numeric"),
    "is not supported yet in a view": (
        r"approx_top_k_.*|collect_union|count_min_sketch|(hll|kll|theta|tuple)_.*|bitmap_.*_agg"
        r"|vector_(avg|sum)|schema_of_variant_agg|counter_diff|st_setsrid"
    ),
    "ORDER BY without LIMIT": "window_time",
    "which makes rows": r"collations|json_tuple|variant_explode(_outer)?",
    "LIMIT or OFFSET without ORDER BY": "sql_keywords",
}
"""Which functions have no example that is computed, by what is said about them."""
WITHOUT = re.compile(
    r".*_(avro|protobuf)|measure|raise_error|python_worker_logs|timestamp_nanos|unix_nanos"
    r"|(try_)?to_time|make_time|time_(diff|trunc|(from|to)_\w+)"
    r"|(big|small|tiny)?int|binary|boolean|date|decimal|double|float|string|time(stamp)?"
)
"""Functions without an example that Spark answers here: other types, other packages, errors; and casts."""

BY_VALUE: dict[str, object] = {
    **dict.fromkeys(("any_value(col)", "first(col)", "first_value(col)"), 5),
    **dict.fromkeys(("last(col)", "last(col, true)", "last_value(col)", "last_value(col, true)"), 10),
    **dict.fromkeys(("array_agg(col)", "collect_list(col)"), (1, 1, 2)),
    "mode(col, false)": -10,
}
"""What these give of their examples, where they choose by value and Spark by the order in which rows come."""


def test_each_function_is_computed_as_in_spark_or_refused_by_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    chosen = functions(spark)[::STRIDE]
    with Pipeline(spark, tmp_path / "pipeline") as pipeline:
        trial = Trial(spark, pipeline)
        for function in chosen:
            trial.add(function)
        trial.plan()
        pipeline.insert(TABLE, ROW)
        pipeline.step()
        assert not trial.wrong()
        pipeline.delete(TABLE, ROW)
        pipeline.step()
        assert not trial.left()
    nothing = {function.name for function in chosen} - trial.computed
    print(f"{trial.judged} examples of {len(trial.computed)} functions judged; nothing of {sorted(nothing)}")
    assert not {name for name in nothing if not trial.is_refused_as_expected(name)}


class Trial:
    """Examples of functions in views of a pipeline, each with what Spark answers; or why they are refused."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline) -> None:
        self._spark = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        for name, value in QUICK.items():
            self._spark.conf.set(name, value)
        self._spark.createDataFrame(ROW).cache().createOrReplaceTempView(TABLE)
        self._pipeline = pipeline
        self._pipeline.sql(f"CREATE TABLE {TABLE} ({COLUMN} BOOLEAN)")
        self._examples: list[Example] = []
        self._views: dict[str, tuple[list[Example], Bag]] = {}
        self._refused: dict[str, str] = {}

    def add(self, function: Function) -> None:
        """Some of its examples, or all."""
        found = examples(self._spark, function)
        self._examples += found if EVERY else islice(found, 1)

    def plan(self) -> None:
        """A view for each query, and for many expressions at once."""
        packed = [one for one in self._examples if not one.is_query]
        for start in range(0, len(packed), PACK):
            self._create(packed[start : start + PACK])
        for one in self._examples:
            if one.is_query:
                self._create([one])

    def wrong(self) -> dict[str, object]:
        """By function, what we have too much of or lack."""
        found: dict[str, object] = {}
        for view, (pack, expected) in self._views.items():
            ours = rows(self._pipeline, view)
            if pack[0].is_query:
                if (differing := differences(ours, expected)) and ours != _by_value(pack[0]):
                    found[pack[0].text] = differing
                continue
            [[mine], [theirs]] = list(ours.elements()), list(expected.elements())
            for example, one, other in zip(pack, mine, theirs, strict=True):
                if differences(Counter([(one,)]), Counter([(other,)])):
                    found[example.text] = one, other
        return found

    def left(self) -> list[str]:
        """Views of the row that have not gone with it."""
        return [
            view
            for view, (pack, _) in self._views.items()
            if not pack[0].is_query and rows(self._pipeline, view)
        ]

    @property
    def judged(self) -> int:
        return sum(len(pack) for pack, _ in self._views.values())

    @property
    def computed(self) -> set[str]:
        return {example.function for pack, _ in self._views.values() for example in pack}

    def is_refused_as_expected(self, function: str) -> bool:
        if function not in self._refused:
            return WITHOUT.fullmatch(function) is not None
        return any(
            said in self._refused[function] and re.fullmatch(names, function)
            for said, names in REFUSED.items()
        )

    def _create(self, pack: list[Example]) -> None:
        """A view of them all; those that Spark itself fails to answer, and those that are refused, apart."""
        query = pack[0].text if pack[0].is_query else _row(pack)
        try:
            expected = Counter(rows_of(self._spark.sql(query).toArrow()))
            view = f"v{len(self._views)}"
            self._pipeline.sql(f"CREATE VIEW {view} AS {query}")
            self._views[view] = pack, expected
        except (PySparkException, Py4JJavaError, pa.ArrowException, Refused) as error:
            if len(pack) > 1:
                self._create(pack[: len(pack) // 2])
                self._create(pack[len(pack) // 2 :])
            elif isinstance(error, Refused):
                # Of some functions one example is refused for its type, and the others for what they are.
                function = pack[0].function
                self._refused[function] = f"{self._refused.get(function, '')}\n{error}"


def _row(pack: list[Example]) -> str:
    columns = (f"{one.text} AS x{number}" for number, one in enumerate(pack))
    return f"SELECT {', '.join(columns)} FROM {TABLE}"


def _by_value(example: Example) -> Bag | None:
    return next(
        (Counter([(value,)]) for call, value in BY_VALUE.items() if f"(SELECT {call} FROM" in example.text),
        None,
    )
