"""First and last rows of keys against a plain dictionary, and what finding them costs."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidemill.pipeline.state.files import RunFiles, RunWriter
from tidemill.pipeline.state.piece import Piece
from tidemill.pipeline.state.seal import seal, spill
from tidemill.pipeline.state.spec import Part, StateSpec
from tidemill.pipeline.state.spine import Spine
from tidemill.pipeline.zset import ZSet, hash_rows
from tidemill.pipeline.zset.value import Indices
from unit.pipeline.state.model import Row, add, by_probe, frozen, keys_of, zset
from unit.pipeline.state.test_order import sort_key
from unit.pipeline.state.test_spine import collide

PAIR = pa.struct([("a", pa.int8()), ("b", pa.float64())])
ORDERED: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(0, 9),
    pa.float64(): st.sampled_from([0.0, -1.0, math.inf, math.nan]),
    pa.large_string(): st.sampled_from(["", "a", "ab", "b"]),
    pa.large_list(pa.int64()): st.lists(st.integers(0, 1), max_size=2),
    PAIR: st.fixed_dictionaries({"a": st.integers(0, 1), "b": st.just(1.0)}),
}


def spec_of(kind: pa.DataType) -> StateSpec:
    schema = pa.schema([("k", pa.int64()), ("v", kind), ("x", pa.int64())])
    return StateSpec("extreme", schema, (0,), order=(1,))


@pytest.mark.parametrize("bits", [64, 2], ids=["", "colliding"])
@pytest.mark.parametrize("kind", ORDERED, ids=str)
@given(data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_extremes_are_those_of_the_sum(
    files: RunFiles, kind: pa.DataType, bits: int, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    spec, model = spec_of(kind), Counter[Row]()
    rows = st.tuples(st.integers(0, 2), ORDERED[kind] | st.none(), st.integers(0, 1))
    change = st.lists(st.tuples(rows, st.integers(-2, 2)), max_size=15)
    rounds = data.draw(st.lists(st.tuples(change, st.sampled_from(["", "seal", "spill"])), max_size=5))
    with monkeypatch.context() as patch:
        collide(patch, bits)
        patch.setattr("tidemill.pipeline.state.extreme._FIRST_WINDOW", data.draw(st.integers(2, 4)))
        spine, writer = Spine(spec, Part(), files), RunWriter(files, "p", 1, 1)
        for change_now, then in rounds:
            before, before_spine = model.copy(), answers(spine)
            spine.next_round()
            spine.add(zset(spec.schema, change_now))
            add(model, change_now)

            assert_extremes(spine, model, before=False)
            assert_extremes(spine, before, before=True)
            if bits == 64:  # among rows of equal order and hash, the choice depends on the runs
                assert answers(spine, before=True) == before_spine
            if then == "seal":
                seal(spine, writer)
            if then == "spill":
                spill(spine, writer, 0)


def answers(spine: Spine, *, before: bool = False) -> list[list[Counter[Row]]]:
    """For keys 0 to 3, one of them twice and one absent: the first and the last row."""
    asked: list[Row] = [(key, None, 0) for key in (2, 0, 1, 0, 3)]
    keys, hashes = keys_of(spine.spec, asked)
    return [
        by_probe(spine.extreme(keys, hashes, last=last, before=before), len(asked)) for last in (False, True)
    ]


def assert_extremes(spine: Spine, model: Counter[Row], *, before: bool) -> None:
    for last, found in zip((False, True), answers(spine, before=before), strict=True):
        for key, rows in zip((2, 0, 1, 0, 3), found, strict=True):
            there = [row for row, weight in model.items() if row[0] == key and weight > 0]
            if not there:
                assert not rows
                continue
            [(row, weight)] = rows.items()
            assert weight == model[row] > 0
            assert rank(row) == (max if last else min)(map(rank, there))


def rank(row: Row) -> Any:
    return sort_key(thawed(row[1]))


def thawed(value: Any) -> Any:
    """The inverse of `frozen`, as far as order goes."""
    if value == "NaN":
        return math.nan
    if isinstance(value, tuple):
        named = bool(value) and isinstance(value[0], tuple)
        return dict(value) if named else [thawed(item) for item in value]
    return value


def test_the_same_row_is_chosen_among_equals_however_the_runs_lie(files: RunFiles, writer: RunWriter) -> None:
    spec = spec_of(pa.int64())
    rows: list[Row] = [(key, 7, number) for key in (0, 1) for number in range(50)]
    spread, whole = Spine(spec, Part(), files), Spine(spec, Part(), files)
    whole.add(zset(spec.schema, [(row, 1) for row in rows]))
    for part in range(10):
        spread.add(zset(spec.schema, [(row, 1) for row in rows[part::10]]))
        spill(spread, writer, 0)

    assert answers(spread) == answers(whole)
    assert frozen(answers(whole)) != []


def test_the_cost_follows_the_keys_and_not_the_group(
    files: RunFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = StateSpec("big", pa.schema([("k", pa.int64()), ("v", pa.int64())]), (0,), order=(1,))
    spine = Spine(spec, Part(), files)
    spine.add(of_one_key(spec, range(100_000), 1))
    spine.add(of_one_key(spec, range(100_000), 1))
    spine.add(of_one_key(spec, range(99_980, 100_000), -2))
    taken: list[int] = []
    take = Piece.take

    def counted(piece: Piece, indices: Indices) -> Piece:
        taken.append(len(indices))
        return take(piece, indices)

    monkeypatch.setattr(Piece, "take", counted)
    keys = pa.record_batch({"k": [0]})
    first = spine.extreme(keys, hash_rows(keys), last=False)
    cheap = sum(taken)
    last = spine.extreme(keys, hash_rows(keys), last=True)

    assert (first.found.rows.column(1).to_pylist(), first.found.weights.tolist()) == ([0], [2])
    assert cheap <= 12
    assert last.found.rows.column(1).to_pylist() == [99_979]
    assert sum(taken) < 500


def of_one_key(spec: StateSpec, values: range, weight: int) -> ZSet:
    columns = [pa.array(np.zeros(len(values), np.int64)), pa.array(np.array(values))]
    return ZSet.of(pa.RecordBatch.from_arrays(columns, schema=spec.schema), weight)
