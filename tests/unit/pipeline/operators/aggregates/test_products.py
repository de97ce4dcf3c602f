"""Numbers of any size against Python's own."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidemill.pipeline.operators.aggregates.products import Large

LIMBS = st.lists(st.integers(-(2**61), 2**61), min_size=1, max_size=5)
FIRST = st.integers(-3, 3)


def large(limbs: list[int], first: int) -> Large:
    return Large(np.array(limbs, np.int64)[:, None], first)


def number(one: Large) -> int:
    """Times 2^320, so that it is whole."""
    return sum(int(limb) << (32 * (one.first + place + 10)) for place, limb in enumerate(one.limbs[:, 0]))


@given(LIMBS, FIRST, LIMBS, FIRST)
def test_products_are_exact(some: list[int], first: int, others: list[int], other_first: int) -> None:
    left, right = large(some, first), large(others, other_first)

    assert number(left * right) << 320 == number(left) * number(right)


@given(
    LIMBS.map(lambda limbs: [limb // 8 for limb in limbs]),
    FIRST,
    LIMBS.map(lambda limbs: [limb // 8 for limb in limbs]),
    FIRST,
)
def test_sums_are_exact(some: list[int], first: int, others: list[int], other_first: int) -> None:
    left, right = large(some, first), large(others, other_first)

    assert number(left.times(3) - right) == 3 * number(left) - number(right)


@given(st.integers(0, 2**63 - 1))
def test_a_count_is_a_number(count: int) -> None:
    assert number(Large.of(np.array([count], np.int64))) == count << 320
