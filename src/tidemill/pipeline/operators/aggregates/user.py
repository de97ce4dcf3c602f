"""Aggregates that users write in Python, and what is asked of them.

One that can take back what it was given has a state per group, and a change costs its own size. Any other is
computed anew from all values of each group that is touched.
"""

import base64
import pickle
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any, NoReturn, Protocol

import msgspec
import pyarrow as pa

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.operators.aggregates.extremes import Values
from tidemill.pipeline.operators.aggregates.measure import Chosen, Function
from tidemill.pipeline.operators.aggregates.whole import Held, Whole
from tidemill.pipeline.plan.node import AggregateCall

Row = tuple[Any, ...]
"""The arguments in one row, as Arrow gives them to Python."""


class Grouped(Protocol):
    """A function of all values of a group: of a column for each argument."""

    @property
    def name(self) -> str: ...

    def __call__(self, *columns: pa.Array) -> Any: ...


@dataclass(frozen=True)
class UserAggregate:
    """An object with `zero`, `add` and `finish`, perhaps `retract` and `merge`, as it travels in a plan.

    `code` is the object, pickled with its class. Called with columns it is a `Grouped`, which is how Spark
    runs it: plain Spark gives the same answer. A state is kept as what msgspec makes of it, and read back
    as the type that `zero` says it returns. What the user's code raises becomes `StepAborted`.
    """

    name: str
    code: bytes
    takes: tuple[Any, ...] | None = None
    """The types of the arguments, in Spark's JSON form; None for any."""
    zone: str | None = None
    """The time zone in which it sees timestamps, the session's; None where they are in it already."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Without what was made of it.
        return UserAggregate, (self.name, self.code, self.takes, self.zone)

    @cached_property
    def body(self) -> Any:
        return pickle.loads(self.code)

    @property
    def retracts(self) -> bool:
        return hasattr(self.body, "retract")

    @property
    def merges(self) -> bool:
        return hasattr(self.body, "merge")

    def __call__(self, *columns: pa.Array) -> Any:
        rows = self.rows(columns)
        return self.finish(self.advance("add", self.zero(), ((row, 1) for row in rows)))

    def rows(self, columns: Sequence[pa.Array]) -> list[Row]:
        """The arguments row by row."""
        local = columns if self.zone is None else [localized(column, self.zone) for column in columns]
        return list(zip(*(column.to_pylist() for column in local), strict=True))

    def zero(self) -> Any:
        return self._call("zero")

    def finish(self, state: Any) -> Any:
        return self._call("finish", state)

    def merge(self, some: Any, more: Any) -> Any:
        return self._state(self._call("merge", some, more), "merge()")

    def advance(self, method: str, state: Any, rows: Iterable[tuple[Row, int]]) -> Any:
        """The state after `add` or `retract` of each row, so many times."""
        act, row = getattr(self.body, method), ()
        try:
            for row, times in rows:
                for _ in repeat(None, times):
                    state = act(state, *row)
        except Exception as error:
            self._blame(f"{method}{row!r}", error)
        return self._state(state, f"{method}()")

    def written(self, state: Any) -> bytes:
        try:
            return msgspec.msgpack.encode(state)
        except Exception as error:
            self._blame("what is kept of a group", error)

    def read(self, state: bytes) -> Any:
        try:
            return self._decoder.decode(state)
        except Exception as error:
            self._blame("what is kept of a group, as the type that zero() returns", error)

    @cached_property
    def _decoder(self) -> Any:
        return msgspec.msgpack.Decoder(typing.get_type_hints(self.body.zero).get("return", Any))

    @cached_property
    def _begins_with_none(self) -> bool:
        return self.zero() is None

    def _state(self, state: Any, what: str) -> Any:
        """The state, if it can be one: whoever gives None has most likely forgotten to return it."""
        if state is None and not self._begins_with_none:
            self._blame(what, TypeError("it returned None, not the state"))
        return state

    def _call(self, method: str, *states: Any) -> Any:
        try:
            return getattr(self.body, method)(*states)
        except Exception as error:
            self._blame(f"{method}()", error)

    def _blame(self, what: str, error: Exception) -> NoReturn:
        reason = f"{type(error).__name__}: {error}"
        raise StepAborted(
            f"[USER_RAISED_EXCEPTION] aggregate {self.name}, {what:.200}: {reason:.500}"
        ) from error


def localized(column: pa.Array, zone: str) -> pa.Array:
    """The same values, with timestamps in that zone."""
    return column.cast(_in_zone(column.type, zone))


def _in_zone(kind: pa.DataType, zone: str) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, zone)
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_in_zone(kind.value_type, zone)))
    if pa.types.is_map(kind):
        item = kind.item_field.with_type(_in_zone(kind.item_type, zone))
        return pa.map_(_in_zone(kind.key_type, zone), item)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_zone(field.type, zone)) for field in kind])
    return kind


def packed(aggregate: Grouped) -> str:
    """As the option `code` of a call."""
    return base64.b85encode(pickle.dumps(aggregate)).decode()


def unpacked(code: str) -> Any:
    return pickle.loads(base64.b85decode(code))


class Recomputed(Function):
    """From all values of the group, each as often as it is there, in the order of values."""

    def __init__(self, call: AggregateCall, arguments: Sequence[pa.Field]) -> None:
        super().__init__(call, arguments)
        self.aggregate: Grouped = unpacked(call.options["code"])
        self.measures = (Whole(Values(Chosen((), call.filter), call.columns)),)

    of_nothing = False  # as in Spark, which calls no function for no rows

    @classmethod
    def takes(cls, *kinds: pa.DataType) -> bool:
        return len(kinds) > 0

    def value(self, *found: Any) -> pa.Array:
        held: Held = found[0].spread()
        values = [
            self._of([column.slice(start, stop - start) for column in held.columns])
            for start, stop in zip(held.starts[:-1].tolist(), held.starts[1:].tolist(), strict=True)
        ]
        return converted(values, self.type, self.aggregate.name)

    def _of(self, columns: list[pa.Array]) -> Any:
        try:
            return self.aggregate(*columns)
        except StepAborted:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise StepAborted(
                f"[USER_RAISED_EXCEPTION] aggregate {self.aggregate.name}: {reason:.500}"
            ) from error


def converted(values: list[Any], kind: pa.DataType, name: str) -> pa.Array:
    """What an aggregate has returned, in the type that it was said to return."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        wrong = next((value for value in values if not _fits(value, kind)), None)
        raise StepAborted(
            f"[DATATYPE_MISMATCH] aggregate {name} returned {wrong!r:.200}, which is no {kind}: {error}"
        ) from error


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True
