"""Aggregates against Spark itself: types of results, rounding, and what happens to values that do not fit."""

import datetime as dt
import math
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidemill.pipeline import types
from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.testing import Bench
from unit.pipeline.operators.aggregation import HUGE, PLACE, SCHEMA, aggregation, zset

Rows = list[dict[str, Any]]
SQL = {"Sum": "sum", "Average": "avg", "Min": "min", "Max": "max", "Count": "count"}
NUMBERS = ["byte", "int", "long", "float", "double", "small", "medium", "large"]


def random_rows(count: int) -> Rows:
    draw = random.Random(7)
    special: dict[str, list[Any]] = {
        "a": [],
        "b": [math.nan],
        "c": [math.inf],
        "d": [math.inf, -math.inf],
        "e": [None, -0.0],
    }
    rows = []
    for _ in range(count):
        text = draw.choice(list(special))
        unscaled = draw.randint(-(10**7), 10**7)
        floats = [draw.uniform(0, 1e6), *special[text]]
        row = {
            "text": text,
            "flag": draw.choice([True, False, None]),
            "double": draw.choice(floats),
            "float": draw.choice([0.5, 0.25, -3.0]),
            "byte": draw.randint(-128, 127),
            "int": draw.randint(-(2**31), 2**31 - 1),
            "long": draw.randint(-(2**50), 2**50),
            "small": Decimal(unscaled).scaleb(-2) if abs(unscaled) < 10**7 else None,
            "medium": Decimal(draw.randint(-(10**17), 10**17)),
            "large": draw.choice([None, Decimal(unscaled).scaleb(-6)]),
            "date": dt.date(2000, 1, 1) + dt.timedelta(draw.randint(-400_000, 400_000)),
            "bytes": draw.randbytes(2),
            "list": draw.choice([None, [], [None, 1.0], [1.0], [math.nan]]),
        }
        rows.append(row)
    return rows


@pytest.fixture(params=["ANSI", "LEGACY", "TRY"])
def mode(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    before = str(spark.conf.get("spark.sql.ansi.enabled"))
    spark.conf.set("spark.sql.ansi.enabled", request.param != "LEGACY")
    yield request.param
    spark.conf.set("spark.sql.ansi.enabled", before)


def sql(function: str, column: str, mode: str) -> str:
    tolerant = "try_" if mode == "TRY" and function in ("Sum", "Average") else ""
    return f"{tolerant}{SQL[function]}({column})"


def ask_spark(spark: SparkSession, rows: Rows, keys: list[str], calls: list[str]) -> DataFrame:
    columns = [name for name in SCHEMA.names if any(name in row for row in rows)]
    table = pa.Table.from_batches([zset(rows).rows]).select(columns)
    spark.createDataFrame(table).createOrReplaceTempView("aggregated")
    grouping = f"GROUP BY {', '.join(keys)}" if keys else ""
    return spark.sql(f"SELECT {', '.join([*keys, *calls])} FROM aggregated {grouping}")


def ask_us(rows: Rows, keys: list[str], calls: list[AggregateCall]) -> list[tuple[Any, ...]]:
    output = Bench(aggregation(keys, calls)).step([zset(rows)])
    assert set(output.weights) == {1}
    return [tuple(row.values()) for row in output.rows.to_pylist()]


def calls_of(frame: DataFrame, functions: list[tuple[str, str]], mode: str) -> list[AggregateCall]:
    """As the front end makes them: the types are Spark's."""
    kinds = [field.dataType.jsonValue() for field in frame.schema.fields[-len(functions) :]]
    return [
        AggregateCall(function, PLACE[column], kind, None, {"mode": mode})
        for (function, column), kind in zip(functions, kinds, strict=True)
    ]


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        return (math.isnan(ours) and math.isnan(theirs)) or math.isclose(ours, theirs, rel_tol=1e-9)
    return bool(ours == theirs)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("keys", [[], ["text"], ["double"]])
def test_every_function_answers_as_spark_does(spark: SparkSession, keys: list[str], mode: str) -> None:
    functions = [(name, column) for name in ("Sum", "Average") for column in NUMBERS]
    functions += [
        (name, column) for name in ("Min", "Max", "Count") for column in (*NUMBERS, "text", "flag", "date")
    ]
    functions += [(name, column) for name in ("Min", "Max") for column in ("bytes",)]
    rows = random_rows(300)
    frame = ask_spark(spark, rows, keys, [sql(name, column, mode) for name, column in functions])
    theirs = sorted((tuple(row) for row in frame.collect()), key=repr)
    ours = sorted(ask_us(rows, keys, calls_of(frame, functions, mode)), key=repr)

    assert len(ours) == len(theirs)
    for mine, spark_row in zip(ours, theirs, strict=True):
        assert all(map(same, mine, spark_row)), (mine, spark_row)


MOST = 2**63 - 1
# Which of them Spark says of a sum of decimals depends on the partition that overflows.
CONDITIONS = ("[ARITHMETIC_OVERFLOW]", "[NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION]")
OVERFLOWS: list[tuple[str, str, list[Any]]] = [
    ("Sum", "long", [MOST, 1]),
    ("Sum", "long", [-MOST, -2]),
    ("Average", "long", [MOST, MOST, MOST]),
    ("Sum", "large", [HUGE, HUGE]),
    ("Average", "large", [HUGE]),
    ("Average", "large", [HUGE, HUGE.copy_negate(), Decimal("0.000005")]),
    ("Average", "small", [Decimal("0.01")] + [Decimal("0.00")] * 31),
    ("Average", "small", [Decimal("-0.01")] + [Decimal("0.00")] * 31),
    ("Average", "medium", [Decimal(10**18 - 1), Decimal(10**18 - 1), Decimal(0)]),
    ("Sum", "double", [1.7e308, 1.7e308]),
    ("Average", "double", [-1.7e308, -1.7e308]),
    ("Sum", "double", [-0.0, -0.0]),
    ("Sum", "double", [None]),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("function", "column", "values"), OVERFLOWS)
def test_limits_are_those_of_spark(
    spark: SparkSession, mode: str, function: str, column: str, values: list[Any]
) -> None:
    rows = [{column: value} for value in values]
    frame = ask_spark(spark, rows, [], [sql(function, column, mode)])
    calls = calls_of(frame, [(function, column)], mode)
    try:
        ((theirs,),) = frame.collect()
    except PySparkException as error:
        with pytest.raises(StepAborted) as found:
            ask_us(rows, [], calls)

        assert all(str(raised).startswith(CONDITIONS) for raised in (error, found.value))  # noqa: PT017
        return
    ((ours,),) = ask_us(rows, [], calls)

    assert same(ours, theirs)
    assert types.to_spark(calls[0].type) == frame.schema.fields[0].dataType.jsonValue()
