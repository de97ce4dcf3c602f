"""Integers as limbs: split, added up with weights, put together again."""

from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.pipeline.operators.aggregates.limbs import fits_64, split, wide

KINDS = [pa.int8(), pa.int32(), pa.int64(), pa.decimal128(9, 0), pa.decimal128(18, 0), pa.decimal128(38, 0)]


def bounds(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_weighted_limbs_add_up_to_the_weighted_sum(kind: pa.DataType, data: st.DataObject) -> None:
    pairs = data.draw(
        st.lists(st.tuples(st.integers(*bounds(kind)), st.integers(-(2**20), 2**20)), min_size=1)
    )
    values = [Context(prec=40).create_decimal(one) if pa.types.is_decimal(kind) else one for one, _ in pairs]
    weights = np.array([weight for _, weight in pairs])
    limbs = split(pa.array([None, *values], kind).slice(1))
    sums = np.stack([[(limb * weights).sum()] for limb in limbs], axis=1)
    expected = sum(one * weight for one, weight in pairs)
    words = wide(sums[:, 0] if len(limbs) == 1 else sums)

    assert int.from_bytes(words.tobytes(), "little", signed=True) == expected
    assert fits_64(words)[0] == (-(2**63) <= expected < 2**63)


def test_small_numbers_of_either_sign_have_small_limbs() -> None:
    limbs = split(pa.array([Decimal(-1), Decimal(1)], pa.decimal128(38, 0)))

    assert [limb.tolist() for limb in limbs] == [[-1, 1], [0, 0], [0, 0], [0, 0]]
