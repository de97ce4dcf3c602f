"""What an aggregate function is, and what it may ask to know of a group."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidemill.pipeline.plan.node import AggregateCall
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.zset import Groups, ZSet
from tidemill.pipeline.zset.equality import valid_mask
from tidemill.pipeline.zset.hashing import Hashes
from tidemill.pipeline.zset.value import Indices, Mask, Weights, take_rows

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rows that a function sees: those with a value in all `columns` for which `filter` is true.

    None stands for a filter that always holds.
    """

    columns: tuple[int, ...]
    filter: int | None

    def mask(self, rows: pa.RecordBatch) -> Mask | None:
        """Which rows; None for all."""
        mask = None
        for column in map(rows.column, self.columns):
            if column.null_count:
                valid = valid_mask(column)
                mask = valid if mask is None else mask & valid
        if self.filter is not None:
            # What a NULL holds beneath means nothing.
            true = rows.column(self.filter).fill_null(False).to_numpy(zero_copy_only=False)
            mask = true if mask is None else mask & true
        return mask


@dataclass(frozen=True, slots=True)
class Counters(ABC):
    """A measure that adds up: each row adds so many numbers, times its weight."""

    chosen: Chosen

    @property
    @abstractmethod
    def width(self) -> int:
        """How many counters."""

    @abstractmethod
    def amounts(self, rows: pa.RecordBatch) -> list[Integers | None]:
        """What each row adds to each counter at weight 1; None for 1. Rows not chosen must add 0."""


@dataclass(frozen=True, slots=True)
class ExactSum:
    """A measure: the exact sum of the products of some float columns. The sums of a node share a detail.

    Products with a factor that is not finite are left out: the sum of that column alone knows of it.
    """

    chosen: Chosen
    factors: tuple[int, ...]


class Detail(ABC):
    """A Z-set kept beside the counters: its rows are the group's columns and some more.

    Subclasses compare by value, so that functions over the same rows share one.
    """

    @property
    def width(self) -> int | None:
        """That of its weights."""
        return None

    @abstractmethod
    def fields(self, schema: pa.Schema) -> list[pa.Field]:
        """The columns after those of the group; `schema` is that of the input."""

    @abstractmethod
    def combine(
        self, rows: pa.RecordBatch, weights: Weights, groups: Groups
    ) -> tuple[Integers, list[pa.Array], Weights]:
        """What rows add to it, added up: numbers of groups, values of the further columns, weights."""

    def state(self, name: str, schema: pa.Schema, keys: int) -> StateSpec:
        """Its state, of which the first `keys` columns are the group's."""
        return StateSpec(name, schema, tuple(range(keys)), self.width)


class Folded(Detail):
    """A detail that does not add up: what has come is worked into what is kept."""

    @abstractmethod
    def fold(self, change: ZSet, spine: Any) -> ZSet:
        """How the kept rows change. What a step takes away comes after all that it adds."""


@dataclass(frozen=True, slots=True, eq=False)
class Touched:
    """Groups to be looked up: their columns and the hashes of these."""

    keys: pa.RecordBatch
    hashes: Hashes

    def __len__(self) -> int:
        return len(self.hashes)

    def slice(self, chosen: slice) -> "Touched":
        return Touched(self.keys[chosen], self.hashes[chosen])

    def take(self, indices: Indices) -> "Touched":
        return Touched(take_rows(self.keys, indices), self.hashes[indices])


@dataclass(frozen=True, slots=True)
class Looked(ABC):
    """A measure that is read from the spine of a detail."""

    detail: Detail

    @abstractmethod
    def read(self, spine: Any, groups: Touched, *, before: bool) -> Any:
        """What is found for these groups, one after the other; `before` is without this round's change."""


Measure = Counters | ExactSum | Looked


class Function(ABC):
    """One aggregate over some columns. Made once per node; pure."""

    measures: tuple[Measure, ...]
    """What it wants to know of a group, in the order in which `value` takes it."""
    of_nothing: ClassVar[bool] = True
    """Whether it has a value where there are no rows: else there is no row for it either."""

    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        self.type = call.type
        self.mode = call.options.get("mode", "ANSI")
        self.chosen = Chosen(call.columns, call.filter)
        unsure = (place for place, field in zip(call.columns, arguments, strict=True) if field.nullable)
        self.counted = Chosen(tuple(unsure), call.filter)
        """The same rows, said so that equal counts are found equal."""

    @classmethod
    def takes(cls, *kinds: pa.DataType) -> bool:
        """Whether it is defined over columns of these types."""
        return len(kinds) == 1

    @abstractmethod
    def value(self, *found: Any) -> pa.Array:
        """Its value for each group: from arrays of counters (n,) or (n, width), or what `read` gave."""


def masked(values: npt.NDArray[Any], valid: Mask, kind: pa.DataType) -> pa.Array:
    """An array that is NULL where not valid."""
    return pa.array(values, kind, mask=None if valid.all() else ~valid)


def stretches(numbers: Integers) -> Integers:
    """Where in a sorted array each run of equal numbers begins."""
    begins = np.ones(len(numbers), np.bool_)
    begins[1:] = numbers[1:] != numbers[:-1]
    return np.flatnonzero(begins)
