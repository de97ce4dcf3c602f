"""Rows for tables that somebody else has thought of, invented by the types of their columns.

Columns of the same name have the same values, and there are few of those, so that joins find something. What
is a primary key counts up. Times go on with the events.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.app.demo.chance import Numbers, chance, one_in
from tidemill.app.demo.lives import Course, Life
from tidemill.pipeline.errors import Refused

HISTORY = 10_000
BATCH = 500
EVENT_US = 1_000
NULL_ONE_IN = 25
FEW = 1_000
"""So many values a column has that is no key."""
_DAY_US = 86_400_000_000
_MOST = 2**62


@dataclass(frozen=True, slots=True)
class Invented:
    """A table of any columns, of which those at `key` are the primary key. `began_us` is its first time."""

    name: str
    schema: pa.Schema
    key: tuple[int, ...]
    began_us: int
    life: Life = field(default=Life(kept=200_000, pillars=FEW))

    @property
    def has_key(self) -> bool:
        return bool(self.key)

    def come(self, events: int) -> int:
        """A table is full when there are no more values for its key."""
        return min(events, capacity(self.schema.field(self._counting).type)) if self.key else events

    def rows(self, numbers: Numbers, versions: Numbers) -> pa.Table:
        try:
            columns = [self._column(at, numbers, numbers * 2 + versions) for at in range(len(self.schema))]
        except Refused as error:
            error.happened_in(f"table {self.name}", None)
            raise
        return pa.Table.from_arrays(columns, schema=self.schema)

    @property
    def _counting(self) -> int:
        """The column that tells rows apart: of a key, the one with the most values, the last of such."""
        return max(self.key, key=lambda at: (capacity(self.schema.field(at).type), at))

    def _column(self, at: int, numbers: Numbers, versioned: Numbers) -> pa.Array:
        column = self.schema.field(at)
        if self.key and at == self._counting:
            return counted(column.type, column.name, numbers)
        those = numbers if at in self.key else versioned
        found = invented(column.type, column.name, those, self.began_us + numbers * EVENT_US)
        if not column.nullable:
            return found
        return pc.if_else(pa.array(one_in(those, f"{column.name} null", NULL_ONE_IN)), None, found)


def anything(tables: Iterable[tuple[str, pa.Schema, tuple[int, ...]]], start_us: int) -> Course:
    """Tables by name, columns and key. Each event is a row of each; their history ends at `start_us`."""
    began_us = start_us - HISTORY * EVENT_US
    invented_ones = [Invented(name, schema, key, began_us) for name, schema, key in tables]
    return Course(invented_ones, start_us, HISTORY, BATCH, EVENT_US)


def capacity(kind: pa.DataType) -> int:
    """How many values `counted` has of a type; 0 for those that cannot be counted."""
    if pa.types.is_boolean(kind):
        return 2
    if pa.types.is_integer(kind):
        return int(min(2 ** (kind.bit_width - 1), _MOST))
    if pa.types.is_floating(kind):
        return 2**24 if pa.types.is_float32(kind) else 2**53
    if pa.types.is_decimal(kind):
        return int(min(10**kind.precision, _MOST))
    if pa.types.is_date(kind):
        return 100_000
    return 0 if pa.types.is_nested(kind) or pa.types.is_null(kind) else _MOST


def counted(kind: pa.DataType, name: str, numbers: Numbers) -> pa.Array:
    """A value of its own for each number. Raises `Refused` for a type of which that cannot be made."""
    if not capacity(kind):
        raise Refused(f"column {name}: no keys of this type can be invented")
    if pa.types.is_timestamp(kind):
        return pa.array(numbers * 1_000_000, kind)
    return _scalar(kind, name, numbers)


def invented(kind: pa.DataType, name: str, numbers: Numbers, times_us: Numbers) -> pa.Array:
    """Values of any type, the same for the same number and name; times are those given, or a little less."""
    if pa.types.is_struct(kind):
        parts = [invented(part.type, f"{name}.{part.name}", numbers, times_us) for part in kind]
        return pa.StructArray.from_arrays(parts, fields=list(kind))
    if pa.types.is_map(kind) or pa.types.is_large_list(kind):
        return _several(kind, name, numbers, times_us)
    if pa.types.is_timestamp(kind):
        return pa.array(times_us - chance(numbers, name, 2_000_000), kind)
    if pa.types.is_date(kind):
        return pa.array((times_us // _DAY_US - chance(numbers, name, 30)).astype(np.int32), kind)
    if pa.types.is_null(kind):
        return pa.nulls(len(numbers))
    if pa.types.is_floating(kind):
        return pa.array(chance(numbers, name, 100 * FEW) / 100).cast(kind)
    many = 100 * FEW if pa.types.is_decimal(kind) else FEW
    return _scalar(kind, name, chance(numbers, name, min(many, capacity(kind))))


def _scalar(kind: pa.DataType, name: str, which: Numbers) -> pa.Array:
    """The value of that number among those of a type."""
    if pa.types.is_boolean(kind):
        return pa.array(which == 1)
    if pa.types.is_decimal(kind):
        unit = pa.scalar(Decimal(1).scaleb(-kind.scale))
        return pc.multiply(pa.array(which).cast(pa.decimal128(19, 0)), unit).cast(kind)
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        text = pc.binary_join_element_wise(name, pa.array(which).cast(pa.string()), "-")
        return text.cast(pa.large_string()).cast(kind)
    if pa.types.is_date(kind):
        return pa.array(which.astype(np.int32), kind)
    return pa.array(which).cast(kind)


def _several(kind: pa.DataType, name: str, numbers: Numbers, times_us: Numbers) -> pa.Array:
    """Up to three elements or entries; keys of a map count up, so that none is there twice."""
    lengths = chance(numbers, f"{name} length", 4)
    ends = np.cumsum(lengths)
    place = np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)
    inside, times = np.repeat(numbers, lengths) * 4 + place, np.repeat(times_us, lengths)
    offsets = np.append(0, ends)
    if pa.types.is_map(kind):
        keys = counted(kind.key_type, name, place)
        values = invented(kind.item_type, name, inside, times)
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, values).cast(kind)
    elements = invented(kind.value_type, name, inside, times)
    return pa.LargeListArray.from_arrays(pa.array(offsets), elements).cast(kind)
