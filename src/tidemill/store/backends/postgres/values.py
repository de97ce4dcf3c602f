"""How Python values travel to the server.

A prepared statement belongs to the types of its parameters, and psycopg sends a number as the smallest
integer type it fits. Here numbers and texts travel as literals whose type the server infers from the
column, as None does, and columns of a batch as arrays of one fixed type: so there is one prepared
statement per text, whatever the values are.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format
from psycopg.types import TypeInfo

from tidemill.store.document import FieldType


class Texts(list[str | None]):
    """A `text[]` parameter."""


class Integers(list[int | None]):
    """A `bigint[]` parameter."""


class Reals(list[float | None]):
    """A `double precision[]` parameter."""


_ARRAYS: dict[FieldType, type[Texts] | type[Integers] | type[Reals]] = {
    "text": Texts,
    "integer": Integers,
    "real": Reals,
}


def array_of(kind: FieldType, values: Iterable[Any]) -> Sequence[Any]:
    """The values of one column as one parameter."""
    return _ARRAYS[kind](values)


class _Literal(Dumper):
    def dump(self, obj: Any) -> bytes:
        return repr(obj).encode()


class _Array(Dumper):
    """PostgreSQL's binary form: a header, then each value behind its length, -1 for NULL."""

    format = Format.BINARY
    element: TypeInfo

    def dump(self, obj: Sequence[Any]) -> bytes:
        nulls, size = int(None in obj), len(obj)
        header = struct.pack("!iii", int(size > 0), nulls, self.element.oid)
        if not size:
            return header
        return b"".join((header, struct.pack("!ii", size, 1), *self.encoded(obj)))

    def encoded(self, values: Sequence[Any]) -> Iterable[bytes]:
        raise NotImplementedError


_NULL = struct.pack("!i", -1)
_LENGTH = struct.Struct("!i").pack


class _TextArray(_Array):
    element = psycopg.adapters.types["text"]
    oid = element.array_oid

    def encoded(self, values: Sequence[str | None]) -> Iterable[bytes]:
        for value in values:
            if value is None:
                yield _NULL
            else:
                raw = value.encode()
                yield _LENGTH(len(raw))
                yield raw


class _NumberArray(_Array):
    pack: struct.Struct

    def encoded(self, values: Sequence[float | None]) -> Iterable[bytes]:
        pack = self.pack.pack
        return (_NULL if value is None else pack(8, value) for value in values)


class _IntegerArray(_NumberArray):
    element = psycopg.adapters.types["int8"]
    oid = element.array_oid
    pack = struct.Struct("!iq")


class _RealArray(_NumberArray):
    element = psycopg.adapters.types["float8"]
    oid = element.array_oid
    pack = struct.Struct("!id")


ADAPTERS = AdaptersMap(psycopg.adapters)
ADAPTERS.register_dumper(int, _Literal)
ADAPTERS.register_dumper(float, _Literal)
ADAPTERS.register_dumper(Texts, _TextArray)
ADAPTERS.register_dumper(Integers, _IntegerArray)
ADAPTERS.register_dumper(Reals, _RealArray)
