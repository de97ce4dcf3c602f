"""Arithmetic on weights that raises where 64 bits do not hold the result."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tidemill.pipeline.errors import StepAborted

Weights = npt.NDArray[np.int64]

_LIMIT = 2**63 - 1
_CHUNK = 2048


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
        _check(left.astype(object) * right.astype(object))
    return left * right


def sum_groups(weights: Weights, starts: npt.NDArray[np.int64]) -> Weights:
    """The sum of each stretch of weights; `starts` says where each begins."""
    if not len(starts):
        return weights[:0]
    if _may_wrap(weights, len(weights)) and _may_wrap(
        weights, int(np.diff(starts, append=len(weights)).max())
    ):
        _check(np.add.reduceat(weights.astype(object), starts, axis=0))
    if weights.ndim == 1 or len(starts) <= _CHUNK:
        return np.asarray(np.add.reduceat(weights, starts, axis=0))
    # numpy goes through all rows for each column: few at a time stay in a cache.
    chunks = [starts[at : at + _CHUNK] for at in range(0, len(starts), _CHUNK)]
    ends = [*(chunk[0] for chunk in chunks[1:]), len(weights)]
    return np.concatenate(
        [
            np.add.reduceat(weights[chunk[0] : end], chunk - chunk[0], axis=0)
            for chunk, end in zip(chunks, ends, strict=True)
        ]
    )


def sum_at(places: npt.NDArray[np.int64], weights: Weights, count: int) -> Weights:
    """The sum of the weights at each of so many places."""
    if _may_wrap(weights, len(weights)) and _may_wrap(weights, int(np.bincount(places).max())):
        exact = np.zeros(count, object)
        np.add.at(exact, places, weights.astype(object))
        _check(exact)
    sums = np.zeros(count, np.int64)
    np.add.at(sums, places, weights)
    return sums


def overflow() -> StepAborted:
    return StepAborted("[WEIGHT_OVERFLOW] a row would be there more than 9223372036854775807 times")


def _may_wrap(weights: Weights, count: int) -> bool:
    """Whether the sum of so many of them could."""
    return bool(len(weights)) and _largest(weights) * count > _LIMIT


def _check(exact: npt.NDArray[Any]) -> None:
    if max(abs(value) for value in exact.flat) > _LIMIT:
        raise overflow()


def _largest(weights: Weights) -> int:
    return max(int(weights.max()), -int(weights.min()))
