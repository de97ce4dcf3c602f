"""Tables against plain counting, and against a dict when there is a primary key."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.plan.node import Source
from tidemill.pipeline.state.spec import StateSpec
from tidemill.pipeline.testing import Bag, Bench, Rows, bag, changes, check, columns, rows_of, spark
from tidemill.pipeline.zset import ZSet, concat

OpenSpine = Callable[[StateSpec], Any]


def table(schema: pa.Schema, *, key: tuple[int, ...] = (), shard_key: tuple[int, ...] = ()) -> Source:
    return Source((), spark(schema), table="t", key=key, shard_key=shard_key or key)


class Absent(Exception):
    pass


def counted(rows: Rows) -> Bag:
    found = bag(rows)
    if any(weight < 0 for weight in found.values()):
        raise Absent
    return found


def replaced(rows: Rows, key: Sequence[int]) -> Bag:
    held = {}
    for row, weight in rows:
        its_key = tuple(row[index] for index in key)
        if weight > 0:
            held[its_key] = row
        elif held.pop(its_key, None) is None:
            raise Absent
    return bag((row, 1) for row in held.values())


def steps_until_absent(steps: Sequence[ZSet], model: Callable[[Rows], Bag]) -> int:
    """How many steps the model takes."""
    for number, history in enumerate(accumulate(map(rows_of, steps))):
        try:
            model(history)
        except Absent:
            return number
    return len(steps)


def check_table(
    node: Source, steps: Sequence[ZSet], model: Callable[[Rows], Bag], open_spine: OpenSpine
) -> None:
    """As `check` for what the model takes; and what it does not take aborts, in one round or in many."""
    good = steps_until_absent(steps, model)
    check([node], [[step] for step in steps[:good]], model, late=0, open_spine=open_spine)
    if good == len(steps):
        return
    bench = Bench([node], open_spine)
    for step in steps[:good]:
        bench.step([step])
    with pytest.raises(StepAborted, match=r"^\[ROW_NOT_FOUND\] table t: "):
        bench.step([steps[good]])
    bad = steps[: good + 1]
    with pytest.raises(StepAborted, match="ROW_NOT_FOUND"):
        Bench([node], open_spine).step(*([step] for step in bad))
    with pytest.raises(StepAborted, match="ROW_NOT_FOUND"):
        Bench([node], open_spine).step([concat(bad, node.schema)])


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_weights_add_up_and_none_may_be_negative(open_spine: OpenSpine, data: st.DataObject) -> None:
    schema = data.draw(columns())
    shard_key = tuple(data.draw(st.sets(st.sampled_from(range(len(schema))))))
    steps = data.draw(st.lists(changes(schema, max_rows=6), min_size=1, max_size=4))
    if data.draw(st.booleans()):  # all rows first, so that most deletes find theirs
        steps.insert(0, ZSet.of(concat(steps, schema).rows, 2))

    check_table(table(schema, shard_key=shard_key), steps, counted, open_spine)


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_the_last_row_of_a_key_counts(open_spine: OpenSpine, data: st.DataObject) -> None:
    schema = data.draw(columns(pa.int8(), pa.large_string()))
    key = data.draw(st.sampled_from([(0,), (1, 0)]))
    weights = st.sampled_from(data.draw(st.sampled_from([[1, 2], [1, 1, 1, 1, 1, -1], [1, -1]])))
    change = changes(schema, weights=weights, required=(0, 1))
    steps = data.draw(st.lists(change, min_size=1, max_size=4))

    check_table(table(schema, key=key), steps, lambda rows: replaced(rows, key), open_spine)


SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.large_string())])


def change(*rows: tuple[int, str | None, int]) -> ZSet:
    values = [{"k": k, "v": v} for k, v, _ in rows]
    weights = np.array([weight for *_, weight in rows], np.int64)
    return ZSet(pa.RecordBatch.from_pylist(values, SCHEMA), weights)


def test_an_update_takes_the_old_row_away() -> None:
    bench = Bench([table(SCHEMA, key=(0,))])
    bench.step([change((1, "a", 1), (2, "b", 1))])

    assert bag(rows_of(bench.step([change((1, "c", 1), (2, "b", 1))]))) == {(1, "a"): -1, (1, "c"): 1}
    assert bag(rows_of(bench.step([change((2, None, -1))]))) == {(2, "b"): -1}
    assert len(bench.step([change((2, "x", 1), (2, None, -1))])) == 0


def test_a_key_cannot_be_deleted_twice() -> None:
    node = table(SCHEMA, key=(0,))
    twice = change((1, None, -1), (2, "b", 1), (1, None, -1))

    with pytest.raises(StepAborted, match="ROW_NOT_FOUND"):
        Bench([node]).step([change((1, "a", 1))], [twice])
    with pytest.raises(StepAborted, match="ROW_NOT_FOUND"):
        Bench([node]).step([change((1, "a", 1), (1, None, -1), (1, None, -1))])


def test_the_message_names_the_table_and_the_row() -> None:
    keyed, plain = table(SCHEMA, key=(0,)), table(SCHEMA, shard_key=(0,))

    with pytest.raises(StepAborted, match=r"table t: .*\{'k': 7\}$"):
        Bench([keyed]).step([change((1, "a", 1), (7, None, -1))])
    with pytest.raises(StepAborted, match=r"table t: .*\{'k': 7, 'v': 'a'\}$"):
        Bench([plain]).step([change((7, "b", 1), (7, "a", -1))])
    with pytest.raises(StepAborted, match=r"table t: .{0,250}…$"):
        Bench([plain]).step([change((7, "x" * 1000, -1))])


def test_a_row_may_be_deleted_in_an_earlier_round_than_it_comes() -> None:
    bench = Bench([table(SCHEMA, shard_key=(0,))])

    assert bag(rows_of(bench.step([change((1, "a", -1))], [change((1, "a", 2))], [change()]))) == {
        (1, "a"): 1
    }


def test_what_an_aborted_step_left_is_not_held_against_the_next() -> None:
    bench = Bench([table(SCHEMA, shard_key=(0,))])
    with pytest.raises(StepAborted):
        bench.step([change((1, "a", -1))], [change()])
    again = Bench([table(SCHEMA, shard_key=(0,))])
    again.operators = bench.operators

    assert len(again.step([change((2, "b", 1))])) == 1
