"""For functions that need all values of a group: those are kept, and read again when the group is touched."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.pipeline.operators.aggregates.measure import Looked, Touched
from tidemill.pipeline.state.order import Direction, has_order, order_codes
from tidemill.pipeline.zset import sum_groups
from tidemill.pipeline.zset.hashing import list_lengths, map_entries
from tidemill.pipeline.zset.value import Indices, Mask, Weights


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The values of some groups, group by group and in order within each; every one once.

    `weights` says how often each is there; group i has those from `starts[i]` up to `starts[i + 1]`.
    """

    columns: tuple[pa.Array, ...]
    weights: Weights
    starts: Indices

    def __len__(self) -> int:
        """How many groups."""
        return len(self.starts) - 1

    @property
    def some(self) -> Mask:
        """Which groups have a value."""
        return np.asarray(self.starts[1:] > self.starts[:-1])

    def number(self) -> Indices:
        """For each value the number of its group."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def before(self) -> Weights:
        """For each group how many values, counted as often as they are there, all groups before it have."""
        return np.append(0, np.cumsum(self.weights))[self.starts]

    def spread(self) -> "Held":
        """The same with each value as often as it is there."""
        indices = pa.array(np.repeat(np.arange(len(self.weights)), self.weights))
        columns = tuple(column.take(indices) for column in self.columns)
        return Held(columns, np.ones(len(indices), np.int64), self.before())


@dataclass(frozen=True, slots=True)
class Whole(Looked):
    """All values of each group, ordered by all columns; each has its direction, or all ascend."""

    directions: tuple[Direction, ...] = ()

    def read(self, spine: Any, groups: Touched, *, before: bool) -> Held:
        matches = spine.lookup(groups.keys, groups.hashes, before=before)
        columns = matches.found.rows.columns[groups.keys.num_columns :]
        # What is equal has equal codes, so that one sort also adds up what several runs say of a value.
        shown = pa.RecordBatch.from_arrays([*map(_sortable, columns)], [*map(str, range(len(columns)))])
        codes = [matches.probe, *order_codes(shown, range(len(columns)), self.directions)]
        order = np.lexsort(codes[::-1])
        begins = np.zeros(len(order), np.bool_)
        begins[:1] = True
        for code in codes:
            begins[1:] |= code[order[1:]] != code[order[:-1]]
        first = np.flatnonzero(begins)
        weights = sum_groups(matches.found.weights[order], first)
        place, weights = order[first][weights > 0], weights[weights > 0]
        starts = np.searchsorted(matches.probe[place], np.arange(len(groups) + 1))
        return Held(tuple(column.take(pa.array(place)) for column in columns), weights, starts)


def _sortable(array: pa.Array) -> pa.Array:
    """Maps have no order in Spark; here they go by their entries, which are in the order of keys."""
    kind = array.type
    if has_order(kind):
        return array
    if pa.types.is_map(kind):
        return _sortable(map_entries(array))
    nulls = array.is_null() if array.null_count else None
    if pa.types.is_struct(kind):
        parts = [_sortable(part) for part in array.flatten()]
        return pa.StructArray.from_arrays(parts, [str(place) for place in range(len(parts))], mask=nulls)
    offsets = pa.array(np.append(0, np.cumsum(list_lengths(array))))
    return pa.LargeListArray.from_arrays(offsets, _sortable(array.flatten()), mask=nulls)
