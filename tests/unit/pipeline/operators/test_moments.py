"""Variance and its like against fractions, whatever came and went before."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.plan.node import Aggregate, AggregateCall, Combine
from tidemill.pipeline.testing import Bench, bag, feed, rows_of, spark
from tidemill.pipeline.zset import ZSet

Pairs = list[tuple[Any, Any]]
SCHEMA = pa.schema([("x", pa.float64()), ("y", pa.float64())])
FINITE = st.sampled_from([0.0, -0.0, 1.5, 0.1, -0.1, 1e16, -1e16, 1e16 + 2, 3.0, 1e-40, 2.0**60, 7e30])
"""So that the cube of a variance is still a number: the formula of the skewness needs it, as in Spark."""
ROWS = st.lists(st.tuples(FINITE | st.none(), FINITE | st.none()), max_size=5)


def deviations(pairs: Pairs, *places: int) -> Fraction:
    """The sum of products of deviations from the mean."""
    means = [sum((pair[place] for pair in pairs), Fraction(0)) / len(pairs) for place in (0, 1)]
    products = (math.prod(pair[place] - means[place] for place in places) for pair in pairs)
    return sum(products, Fraction(0))


def root(value: Fraction) -> float:
    return math.sqrt(value)


def slope(pairs: Pairs) -> Fraction:
    return deviations(pairs, 0, 1) / deviations(pairs, 1, 1)


def mean(pairs: Pairs, place: int) -> Fraction:
    return sum((pair[place] for pair in pairs), Fraction(0)) / len(pairs)


ONE: dict[str, Callable[[Pairs], Any]] = {
    "VariancePop": lambda rows: deviations(rows, 0, 0) / len(rows),
    "VarianceSamp": lambda rows: deviations(rows, 0, 0) / (len(rows) - 1),
    "StddevPop": lambda rows: root(deviations(rows, 0, 0) / len(rows)),
    "StddevSamp": lambda rows: root(deviations(rows, 0, 0) / (len(rows) - 1)),
    "RegrReplacement": lambda rows: deviations(rows, 0, 0),
    "Skewness": lambda rows: (
        root(Fraction(len(rows))) * float(deviations(rows, 0, 0, 0)) / root(deviations(rows, 0, 0)) ** 3
    ),
    "Kurtosis": lambda rows: len(rows) * deviations(rows, 0, 0, 0, 0) / deviations(rows, 0, 0) ** 2 - 3,
}
TWO: dict[str, Callable[[Pairs], Any]] = {
    "CovPopulation": lambda rows: deviations(rows, 0, 1) / len(rows),
    "CovSample": lambda rows: deviations(rows, 0, 1) / (len(rows) - 1),
    "RegrSXY": lambda rows: deviations(rows, 0, 1),
    "Corr": lambda rows: (
        float(deviations(rows, 0, 1)) / root(deviations(rows, 0, 0)) / root(deviations(rows, 1, 1))
    ),
    "RegrSlope": slope,
    "RegrIntercept": lambda rows: mean(rows, 0) - slope(rows) * mean(rows, 1),
    "RegrR2": lambda rows: (
        1.0
        if deviations(rows, 1, 1) and not deviations(rows, 0, 0)
        else deviations(rows, 0, 1) ** 2 / deviations(rows, 0, 0) / deviations(rows, 1, 1)
    ),
}


def call(function: str, *, null: bool = True) -> AggregateCall:
    options = {"nullOnDivideByZero": str(null).lower()}
    return AggregateCall(function, 0, "double", None, options, (1,) if function in TWO else msgspec.UNSET)


def run(one: AggregateCall, *changes: tuple[Pairs, int]) -> float | Literal["NaN"] | None:
    """The value after changes: rows, and the weight that all of them have."""
    nodes = [
        feed(SCHEMA),
        Combine((0,), spark(SCHEMA), (), (one,)),
        Aggregate((1,), spark(pa.schema([("v", pa.float64())])), (), (one,), spark(SCHEMA)),
    ]
    bench = Bench(nodes)
    output = []
    for rows, weight in changes:
        columns = [pa.array([row[place] for row in rows], pa.float64()) for place in (0, 1)]
        change = ZSet(
            pa.RecordBatch.from_arrays(columns, schema=SCHEMA), np.full(len(rows), weight, np.int64)
        )
        output += rows_of(bench.step([change]))
    value: float | Literal["NaN"] | None
    [((value,), _)] = bag(output).items()
    return value


@pytest.mark.parametrize("function", [*ONE, *TWO])
@given(kept=ROWS, gone=ROWS)
@settings(max_examples=25, deadline=None)
def test_values_are_exact_but_for_the_last_rounding(function: str, kept: Pairs, gone: Pairs) -> None:
    found = run(call(function), (gone, 3), (kept, 1), (gone, -3))
    used: Pairs = [
        (Fraction(row[0]), Fraction(row[1] or 0))
        for row in kept
        if row[0] is not None and (row[1] is not None or function in ONE)
    ]
    try:
        expected = float((ONE | TWO)[function](used))
    except ZeroDivisionError:
        assert found is None
    else:
        assert isinstance(found, float)
        # Only the intercept is a difference of what was rounded.
        scale = float(abs(mean(used, 0))) if function == "RegrIntercept" else 0.0
        assert math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-12 * scale)


def test_it_does_not_suffer_from_large_values_with_small_deviations() -> None:
    assert run(call("VariancePop"), ([(1e15, 0), (1e15 + 1, 0)], 1)) == 0.25
    assert run(call("CovPopulation"), ([(1e15, 1e15), (1e15 + 1, 1e15 + 2)], 1)) == 0.5


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_makes_it_nan_until_it_goes(odd: float) -> None:
    for function in ("Kurtosis", "StddevPop", "Corr", "RegrR2", "RegrIntercept"):
        rows: Pairs = [(1.0, 2.0), (2.0, 5.0), (4.0, 3.0)]

        assert run(call(function), (rows, 1), ([(odd, 1.0)], 1)) == "NaN"
        assert run(call(function), (rows, 1), ([(odd, 1.0)], 1), ([(odd, 1.0)], -1)) == run(
            call(function), (rows, 1)
        )


def test_a_single_value_has_no_sample_variance() -> None:
    assert run(call("VarianceSamp"), ([(1.0, 1.0)], 1)) is None
    assert run(call("VarianceSamp", null=False), ([(1.0, 1.0)], 1)) == "NaN"
    assert run(call("VariancePop"), ([(1.0, 1.0)], 1)) == 0.0
    assert run(call("Corr"), ([(1.0, 1.0)], 1)) is None
    assert run(call("StddevPop"), ([], 1)) is None
