"""Variance and its like: from exact sums of powers and products of doubles, by Spark's own formulas.

Central moments are computed exactly and rounded once: they do not suffer when what is added is large beside
its deviation. A value that is not finite makes all of them NaN.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.aggregates.counts import Rows
from tidemill.pipeline.operators.aggregates.floats import Sums
from tidemill.pipeline.operators.aggregates.measure import ExactSum, Function, Integers, masked
from tidemill.pipeline.operators.aggregates.products import Large
from tidemill.pipeline.operators.aggregates.rounding import Floats
from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.zset.value import Mask

Result = tuple[Floats, Mask | None]
"""Values, and where there is none because it would be a division by zero."""


def deviation(n: Large, x: Large, y: Large, products: Large) -> Large:
    """The sum of products of deviations from the mean, times n."""
    return n * products - x * y


def third(n: Large, x: Large, squares: Large, cubes: Large) -> Large:
    """The sum of cubes of deviations from the mean, times n^2."""
    return n * (n * cubes - (x * squares).times(3)) + (x * x * x).times(2)


def fourth(n: Large, x: Large, squares: Large, cubes: Large, fourths: Large) -> Large:
    """The sum of fourth powers of deviations from the mean, times n^3."""
    rest = n * (n * fourths - (x * cubes).times(4)) + (x * x * squares).times(6)
    return n * rest - (x * x * x * x).times(3)


def central(formula: Callable[..., Large], degree: int, count: Integers, *sums: Sums) -> Floats:
    """What the formula says of so many values, whose sums these are, each group for itself."""
    exact = formula(Large.of(count), *(one.finite for one in sums)).rounded()
    special = np.any([one.special.any(axis=0) for one in sums], axis=0)
    return np.where(special, np.nan, exact) / np.maximum(count, 1).astype(np.float64) ** (degree - 1)


class _OverDoubles(Function):
    """`undefined` is how a function says that it would divide by zero: as NULL, or as NaN in older Spark."""

    columns: ClassVar[int]
    factors: ClassVar[tuple[tuple[int, ...], ...]]
    """The sums it needs: each of a product of columns, by their places among the arguments."""

    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        self.null = call.options.get("nullOnDivideByZero", "true") == "true"
        columns = call.columns
        products = (tuple(columns[place] for place in factors) for factors in self.factors)
        self.measures = (Rows(self.counted), *(ExactSum(self.chosen, factors) for factors in products))

    @classmethod
    def takes(cls, *kinds: pa.DataType) -> bool:
        return len(kinds) == cls.columns and all(map(pa.types.is_float64, kinds))

    @abstractmethod
    def result(self, count: Integers, *sums: Sums) -> Result: ...

    def value(self, *found: Any) -> pa.Array:
        count, *sums = found
        count = np.maximum(count, 0)
        with np.errstate(all="ignore"):
            values, undefined = self.result(count, *sums)
        valid = count > 0
        if undefined is not None:
            values = np.where(undefined, np.nan, values)
            valid = valid & ~undefined if self.null else valid
        return masked(values, valid, self.type)


class _Variance(_OverDoubles):
    columns, factors = 1, ((0,), (0, 0))
    sample: ClassVar[bool]

    def result(self, count: Integers, *sums: Sums) -> Result:
        total, squares = sums
        found = central(deviation, 2, count, total, total, squares) / (count - self.sample)
        return found, (count == 1) if self.sample else None


class VariancePop(_Variance):
    sample = False


class VarianceSamp(_Variance):
    sample = True


class StddevPop(VariancePop):
    def result(self, count: Integers, *sums: Sums) -> Result:
        variance, undefined = super().result(count, *sums)
        return np.sqrt(variance), undefined


class StddevSamp(StddevPop):
    sample = True


class RegrReplacement(_OverDoubles):
    """REGR_SXX and REGR_SYY: the sum of squares of deviations."""

    columns, factors = 1, ((0,), (0, 0))

    def result(self, count: Integers, *sums: Sums) -> Result:
        total, squares = sums
        return central(deviation, 2, count, total, total, squares), None


class Skewness(_OverDoubles):
    columns, factors = 1, ((0,), (0, 0), (0, 0, 0))

    def result(self, count: Integers, *sums: Sums) -> Result:
        total, squares, _ = sums
        m2 = central(deviation, 2, count, total, total, squares)
        m3 = central(third, 3, count, *sums)
        return np.sqrt(count) * m3 / np.sqrt(m2 * m2 * m2), m2 == 0


class Kurtosis(_OverDoubles):
    columns, factors = 1, ((0,), (0, 0), (0, 0, 0), (0, 0, 0, 0))

    def result(self, count: Integers, *sums: Sums) -> Result:
        total, squares, *_ = sums
        m2 = central(deviation, 2, count, total, total, squares)
        m4 = central(fourth, 4, count, *sums)
        return count * m4 / (m2 * m2) - 3.0, m2 == 0


class _Covariance(_OverDoubles):
    columns, factors = 2, ((0,), (1,), (0, 1))
    sample: ClassVar[bool]

    def result(self, count: Integers, *sums: Sums) -> Result:
        found = central(deviation, 2, count, *sums) / (count - self.sample)
        return found, (count == 1) if self.sample else None


class CovPopulation(_Covariance):
    sample = False


class CovSample(_Covariance):
    sample = True


class RegrSxy(_OverDoubles):
    columns, factors = 2, ((0,), (1,), (0, 1))

    def result(self, count: Integers, *sums: Sums) -> Result:
        return central(deviation, 2, count, *sums), None


class Corr(_OverDoubles):
    columns, factors = 2, ((0,), (1,), (0, 1), (0, 0), (1, 1))

    def result(self, count: Integers, *sums: Sums) -> Result:
        both, one, other = self.parts(count, *sums)
        return both / np.sqrt(one * other), (count == 1) | (one == 0) | (other == 0)

    def parts(self, count: Integers, *sums: Sums) -> tuple[Floats, Floats, Floats]:
        """The sums of products of deviations: of the two, and of each with itself."""
        x, y, xy, xx, yy = sums
        return (
            central(deviation, 2, count, x, y, xy),
            central(deviation, 2, count, x, x, xx),
            central(deviation, 2, count, y, y, yy),
        )


class RegrR2(Corr):
    def result(self, count: Integers, *sums: Sums) -> Result:
        both, one, other = self.parts(count, *sums)
        found = both / np.sqrt(one * other)
        return np.where(one == 0, 1.0, found * found), other == 0


class RegrSlope(_OverDoubles):
    """Of the first argument by the second."""

    columns, factors = 2, ((0,), (1,), (0, 1), (1, 1))

    def result(self, count: Integers, *sums: Sums) -> Result:
        y, x, xy, xx = sums
        square = central(deviation, 2, count, x, x, xx)
        return central(deviation, 2, count, x, y, xy) / square, square == 0


class RegrIntercept(RegrSlope):
    def result(self, count: Integers, *sums: Sums) -> Result:
        y, x, *_ = sums
        slope, undefined = super().result(count, *sums)
        return y.rounded / count - slope * (x.rounded / count), undefined
