"""Arithmetic on weights that raises where 64 bits do not hold the result."""

import numpy as np
import numpy.typing as npt

from tidemill.pipeline.errors import StepAborted

Weights = npt.NDArray[np.int64]

_LIMIT = 2**63 - 1


def add_checked(left: Weights, right: Weights) -> Weights:
    """The sums, element by element."""
    total = left + right
    # It wrapped where both have the sign that the sum has not.
    if ((left ^ total) & (right ^ total) < 0).any():
        raise overflow()
    return total


def multiply_checked(left: Weights, right: Weights) -> Weights:
    """The products, element by element; `right` may have fewer dimensions."""
    if left.size and right.size and _largest(left) * _largest(right) > _LIMIT:
        exact = left.astype(object) * right.astype(object)
        if max(abs(value) for value in exact.flat) > _LIMIT:
            raise overflow()
    return left * right


def sum_groups(weights: Weights, starts: npt.NDArray[np.int64]) -> Weights:
    """The sum of each stretch of weights; `starts` says where each begins."""
    if not len(starts):
        return weights[:0]
    if len(weights) and _largest(weights) * len(weights) > _LIMIT:
        exact = np.add.reduceat(weights.astype(object), starts, axis=0)
        if max(abs(value) for value in exact.flat) > _LIMIT:
            raise overflow()
    return np.asarray(np.add.reduceat(weights, starts, axis=0))


def overflow() -> StepAborted:
    return StepAborted("[WEIGHT_OVERFLOW] a row would be there more than 9223372036854775807 times")


def _largest(weights: Weights) -> int:
    return max(int(weights.max()), -int(weights.min()))
