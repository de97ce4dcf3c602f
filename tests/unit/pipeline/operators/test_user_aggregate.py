"""Aggregates that users write: kept by state or by rows, and what becomes of their mistakes."""

import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline import types
from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.operators.aggregates.user import UserAggregate, packed
from tidemill.pipeline.plan.node import Aggregate, AggregateCall, Arrange, Combine, Node
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.testing import Bag, Bench, Rows, bag, check, feed, rows_of, spark
from tidemill.pipeline.zset import ZSet

SCHEMA = pa.schema([("k", pa.int8()), ("x", pa.int64()), ("w", pa.int32())])


class Weighted:
    """The average of x weighted by w, exact: sums as integers. Rows with a NULL count for nothing."""

    def zero(self) -> tuple[int, int]:
        return 0, 0

    def add(self, state: tuple[int, int], x: int | None, w: int | None) -> tuple[int, int]:
        return state if x is None or w is None else (state[0] + x * w, state[1] + w)

    def finish(self, state: tuple[int, int]) -> float | None:
        return state[0] / state[1] if state[1] else None


class Retracting(Weighted):
    def retract(self, state: tuple[int, int], x: int | None, w: int | None) -> tuple[int, int]:
        return state if x is None or w is None else (state[0] - x * w, state[1] - w)


class Merging(Retracting):
    merged: ClassVar[list[Any]] = []

    def merge(self, some: tuple[int, int], more: tuple[int, int]) -> tuple[int, int]:
        self.merged.append(more)
        return some[0] + more[0], some[1] + more[1]


class Values:
    """All values in a set with counts, to which nothing is taken back that is not there."""

    def zero(self) -> dict[int, int]:
        return {}

    def add(self, state: dict[int, int], x: int, w: int | None) -> dict[int, int]:
        state[x] = state.get(x, 0) + 1
        return state

    def retract(self, state: dict[int, int], x: int, w: int | None) -> dict[int, int]:
        state[x] -= 1
        if not state[x]:
            del state[x]
        return state

    def finish(self, state: dict[int, int]) -> float:
        return max(state)


def call(body: Any, kind: pa.DataType = pa.float64()) -> AggregateCall:  # noqa: B008
    name = "Stateful" if hasattr(body, "retract") else "Recomputed"
    options = {"name": "mine", "code": packed(UserAggregate("mine", pickle.dumps(body)))}
    return AggregateCall(name, 1, types.to_spark(kind), None, options, (2,))


def nodes(each: AggregateCall, keys: tuple[int, ...] = (0,)) -> list[Node]:
    fields = [SCHEMA.field(key) for key in keys] + [("value", each.type)]
    schema = spark(SCHEMA)
    return [
        feed(SCHEMA),
        Arrange((0,), schema, key=(0,)),
        Combine((1,), schema, keys, (each,)),
        Aggregate((2,), spark(pa.schema(fields)), keys, (each,), schema),
    ]


def zset(rows: Sequence[tuple[Any, ...]], weights: Sequence[int] | None = None) -> ZSet:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)]
    held = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    return ZSet(held, np.array([1] * len(rows) if weights is None else weights, np.int64))


NUMBER = st.none() | st.integers(-3, 3)
ROW = st.tuples(st.none() | st.integers(0, 1), NUMBER, NUMBER)


@st.composite
def histories(draw: st.DrawFn, row: st.SearchStrategy[tuple[Any, ...]] = ROW) -> list[tuple[ZSet]]:
    """Changes that never take away what is not there by the end of their step."""
    there: Counter[tuple[Any, ...]] = Counter()
    steps = []
    for added in draw(st.lists(st.lists(row, max_size=6), min_size=1, max_size=5)):
        there.update(added)
        gone = (
            draw(st.lists(st.sampled_from(sorted(there.elements(), key=repr)), max_size=4)) if there else []
        )
        gone = list((Counter(gone) & there).elements())
        there.subtract(gone)
        there = +there
        pairs = draw(st.permutations([(one, 1) for one in added] + [(one, -1) for one in gone]))
        steps.append((zset([one for one, _ in pairs], [weight for _, weight in pairs]),))
    return steps


def model(body: Any, keys: tuple[int, ...]) -> Callable[[Rows], Bag]:
    def answer(rows: Rows) -> Bag:
        states: dict[Any, Any] = {}
        for row, weight in bag(rows).items():
            group = tuple(row[key] for key in keys)
            for _ in range(weight):
                states[group] = body.add(states[group] if group in states else body.zero(), *row[1:])
        return bag(((*group, body.finish(state)), 1) for group, state in states.items())

    return answer


@settings(max_examples=40, deadline=None)
@given(data=st.data(), body=st.sampled_from([Weighted(), Retracting(), Merging()]))
def test_it_has_the_value_of_the_rows_that_are_there(
    open_spine: Callable[[StateSpec], Any], data: st.DataObject, body: Any
) -> None:
    keys = data.draw(st.sampled_from([(), (0,)]))

    check(nodes(call(body), keys), data.draw(histories()), model(body, keys), late=2, open_spine=open_spine)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_nothing_is_taken_back_before_it_was_added(
    open_spine: Callable[[StateSpec], Any], data: st.DataObject
) -> None:
    row = st.tuples(st.integers(0, 1), st.integers(0, 3), st.none())
    steps = data.draw(histories(row))

    check(nodes(call(Values())), steps, model(Values(), (0,)), late=2, open_spine=open_spine)


def run(each: AggregateCall, *changes: ZSet) -> Bag:
    bench = Bench(nodes(each))
    return bag(pair for change in changes for pair in rows_of(bench.step([change])))


def test_states_of_several_rows_are_merged() -> None:
    Merging.merged.clear()

    assert run(call(Merging()), zset([(0, 1, 2), (0, 4, 1), (1, 5, 1)])) == {(0, 2.0): 1, (1, 5.0): 1}
    assert Merging.merged == [(6, 3)]


class Typed(Weighted):
    """Its state comes back as the type that `zero` says."""

    def zero(self) -> tuple[Decimal, set[int]]:  # type: ignore[override]
        return Decimal(0), set()

    def add(self, state: Any, x: int | None, w: int | None) -> Any:
        return state[0] + Decimal(x or 0) / 4, state[1] | {x}

    def retract(self, state: Any, x: int | None, w: int | None) -> Any:
        return state[0] - Decimal(x or 0) / 4, state[1]

    def finish(self, state: Any) -> float:
        assert isinstance(state[1], set)
        return float(state[0])


def test_a_state_has_its_type_again() -> None:
    assert run(call(Typed()), zset([(0, 1, 0), (0, 2, 0)]), zset([(0, 1, 0)], [-1])) == {(0, 0.5): 1}


# Mistakes.


class Raising(Retracting):
    def add(self, state: tuple[int, int], x: int | None, w: int | None) -> tuple[int, int]:
        return super().add(state, x, w) if x else 1 // 0  # type: ignore[return-value]


class Forgetful(Weighted):
    def add(self, state: Any, x: int | None, w: int | None) -> None:  # type: ignore[override]
        """Returns nothing."""


class Wrong(Retracting):
    def finish(self, state: tuple[int, int]) -> Any:
        return "no number"


class Large(Weighted):
    def finish(self, state: tuple[int, int]) -> Any:
        return 2**70


class Odd(Retracting):
    def add(self, state: tuple[int, int], x: int | None, w: int | None) -> Any:
        return Fraction(1, 3)


class Stuck(Retracting):
    def zero(self) -> Any:
        raise KeyError("zero")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (Raising(), r"\[USER_RAISED_EXCEPTION\] aggregate mine, add\(0, 1\): ZeroDivisionError"),
        (Forgetful(), r"aggregate mine, add\(\): TypeError: it returned None, not the state"),
        (Wrong(), r"\[DATATYPE_MISMATCH\] aggregate mine returned 'no number', which is no int64"),
        (Large(), r"\[DATATYPE_MISMATCH\] aggregate mine returned 1180591620717411303424"),
        (Odd(), r"what is kept of a group: TypeError: Encoding objects of type Fraction is unsupported"),
        (Stuck(), r"aggregate mine, zero\(\): KeyError: 'zero'"),
    ],
)
def test_a_mistake_aborts_the_step(body: Any, said: str) -> None:
    with pytest.raises(StepAborted, match=said):
        run(call(body, pa.int64()), zset([(0, 0, 1)]))
