"""Exact sums of doubles, rounded once, against fractions and `math.fsum`."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.operators.aggregates.doubles import Doubles, spread
from tidemill.pipeline.operators.aggregates.rounding import nearest

LEAST = 34  # limbs below zero that a double may have
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def exact_sum(values: Sequence[float]) -> float:
    """What the limbs of the values add up to, rounded."""
    lowest, amounts = spread([Doubles.of(np.array(values))], np.ones(len(values), np.int64))
    limbs = np.zeros(80, np.int64)
    for above, amount in enumerate(amounts):
        np.add.at(limbs, lowest + LEAST + above, amount)
    return float(nearest(limbs[:, None], -LEAST)[0])


@given(st.lists(FINITE, min_size=1, max_size=20))
@example([1e308, 1.0, -1e308])
@example([5e-324, -5e-324])
@example([1.0, 2.0**-53, 2.0**-1074])
@example([1.0, 2.0**-53])
@example([2.0**53, 1.0, -(2.0**-1074)])
@example([2.2250738585072014e-308, -5e-324])
def test_a_sum_is_that_of_fsum(values: list[float]) -> None:
    try:
        expected = math.fsum(values)
    except OverflowError:  # on the way
        return

    assert exact_sum(values) == expected


@given(
    st.lists(st.tuples(st.integers(-(2**61), 2**61), st.integers(0, 12)), min_size=1), st.integers(-33, 16)
)
def test_limbs_of_any_size_and_sign_are_carried(parts: list[tuple[int, int]], first: int) -> None:
    limbs = np.zeros((13, 1), np.int64)
    for amount, place in parts:
        limbs[place, 0] = amount
    exact = sum(int(limb) << (32 * place) for place, limb in enumerate(limbs[:, 0]))
    try:
        expected = float(Fraction(exact) * Fraction(2) ** (32 * first))
    except OverflowError:
        expected = math.inf if exact > 0 else -math.inf

    assert nearest(limbs, first)[0] == expected


def test_sums_too_large_for_a_double_are_infinite() -> None:
    most = 1.7976931348623157e308

    assert exact_sum([most, 2.0**969]) == most
    assert exact_sum([most, 2.0**970]) == math.inf
    assert exact_sum([-most, -most]) == -math.inf
    assert exact_sum([most, most, -most]) == most


def test_limbs_that_could_wrap_abort_the_step() -> None:
    with pytest.raises(StepAborted, match="WEIGHT_OVERFLOW"):
        nearest(np.array([[2**62]]), 0)
