"""Spines against a plain dictionary: random changes, lookups before and after, seals at random moments."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidemill.pipeline.state.files import RunFiles, RunWriter
from tidemill.pipeline.state.seal import seal, spill
from tidemill.pipeline.state.spec import Part, RunRef, StateSpec
from tidemill.pipeline.state.spine import Spine
from tidemill.pipeline.zset import ZSet, hashing
from tidemill.pipeline.zset.value import empty_rows
from unit.pipeline.state.model import Row, add, frozen, probe, scanned, zset

INTS = pa.schema([("k", pa.int64()), ("v", pa.int64())])
TEXTS = pa.schema([("k", pa.large_string()), ("v", pa.float64())])
NESTED = pa.schema(
    [("k", pa.struct([("a", pa.int32()), ("b", pa.large_list(pa.int8()))])), ("v", pa.bool_())]
)
SPECS = {
    "ints": StateSpec("ints", INTS, (0,)),
    "texts": StateSpec("texts", TEXTS, (0,)),
    "nested": StateSpec("nested", NESTED, (0,)),
    "whole row": StateSpec("whole", INTS, (0, 1)),
    "second column": StateSpec("second", INTS, (1,)),
    "no key": StateSpec("global", INTS, ()),
    "ordered": StateSpec("ordered", INTS, (0,), order=(1,)),
}
small = st.one_of(st.none(), st.integers(-3, 3))
ROWS: dict[str, st.SearchStrategy[Row]] = {
    "texts": st.tuples(
        st.one_of(st.none(), st.sampled_from(["", "a", "b" * 300, "\0", "é"])),
        st.one_of(st.none(), st.sampled_from([0.0, 1.5, float("nan"), float("inf")])),
    ),
    "nested": st.tuples(
        st.one_of(
            st.none(),
            st.fixed_dictionaries({"a": small, "b": st.one_of(st.none(), st.lists(small, max_size=2))}),
        ),
        st.one_of(st.none(), st.booleans()),
    ),
}
quick = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def changes(rows: st.SearchStrategy[Row]) -> st.SearchStrategy[list[tuple[Row, int]]]:
    return st.lists(st.tuples(rows, st.integers(-2, 2)), max_size=12)


def rounds(kind: str) -> st.SearchStrategy[list[tuple[list[tuple[Row, int]], str]]]:
    rows = ROWS.get(kind, st.tuples(small, small))
    return st.lists(
        st.tuples(changes(rows), st.sampled_from(["", "round", "seal", "spill", "reopen"])), max_size=8
    )


def adopt(refs: list[RunRef], spine: Spine, writer: RunWriter) -> list[RunRef]:
    sealed = seal(spine, writer)
    assert set(sealed.removed) <= {ref.name for ref in refs}
    return [ref for ref in refs if ref.name not in sealed.removed] + list(sealed.added)


def check(spine: Spine, model: Counter[Row], asked: list[Row], *, before: bool) -> None:
    assert scanned(spine, before=before) == model
    for row, found in zip(asked, probe(spine, asked, before=before), strict=True):
        key = tuple(frozen(row[column]) for column in spine.spec.key)
        wanted = {r: w for r, w in model.items() if tuple(r[column] for column in spine.spec.key) == key}
        assert found == wanted


@pytest.mark.parametrize("bits", [64, 2], ids=["", "colliding"])
@pytest.mark.parametrize("kind", SPECS)
@given(data=st.data())
@quick
def test_a_spine_is_the_sum_of_its_changes(
    files: RunFiles, kind: str, bits: int, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    spec, model, settled, refs = SPECS[kind], Counter[Row](), Counter[Row](), list[RunRef]()
    with monkeypatch.context() as patch:
        collide(patch, bits)
        piece_rows = data.draw(st.sampled_from([1, 3, 100]))
        for module in ("run", "stream"):
            patch.setattr(f"tidemill.pipeline.state.{module}.PIECE_ROWS", piece_rows)
        spine, writer = Spine(spec, Part(), files), RunWriter(files, "p", 1, 1)
        for change, then in data.draw(rounds(kind)):
            asked = [row for row, _ in change]
            spine.add(zset(spec.schema, change))
            add(model, change)

            check(spine, model, asked, before=False)
            check(spine, settled, asked, before=True)
            if not spec.order:
                held = spine.weights(zset(spec.schema, change).rows).tolist()
                assert held == [model[tuple(map(frozen, row))] for row in asked]
            if then in ("seal", "reopen"):
                refs = adopt(refs, spine, writer)
            if then == "reopen":
                spine = Spine(spec, Part(), files, refs)
            if then == "spill":
                spill(spine, writer, 0)
            if then:
                spine.next_round()
                settled = model.copy()
                check(spine, model, asked, before=True)


def collide(patch: pytest.MonkeyPatch, bits: int) -> None:
    """Leave only so many bits of each hash, the uppermost."""
    whole = hashing.hash_rows

    def cut(rows: pa.RecordBatch, columns: Any = None) -> hashing.Hashes:
        return whole(rows, columns) & np.uint64((2**bits - 1) << (64 - bits))

    if bits < 64:
        patch.setattr(hashing, "hash_rows", cut)
        patch.setattr("unit.pipeline.state.model.hash_rows", cut)


def test_linear_totals_add_up_by_component(files: RunFiles, writer: RunWriter) -> None:
    spec = StateSpec("totals", pa.schema([("k", pa.int64())]), (0,), width=2)
    spine = Spine(spec, Part(), files)
    rows = pa.record_batch({"k": [1, 2]})
    spine.add(ZSet(rows, np.array([[1, 10], [1, 20]])))
    seal(spine, writer)
    spine.add(ZSet(rows, np.array([[1, 5], [-1, -20]])))
    (found,) = spine.scan()

    assert (found.rows.to_pydict(), found.weights.tolist()) == ({"k": [1]}, [[2, 15]])
    matches = spine.lookup(rows, hashing.hash_rows(rows), before=True)
    assert matches.found.weights[np.argsort(matches.probe)].tolist() == [[1, 10], [1, 20]]


def test_rows_without_columns_have_totals_too(files: RunFiles, writer: RunWriter) -> None:
    spec = StateSpec("global", pa.schema([]), (), width=1)
    spine = Spine(spec, Part(), files)
    nothing = empty_rows(spec.schema, 1)
    for _ in range(2):
        spine.add(ZSet(nothing, np.array([[7]])))
        seal(spine, writer)
    found = spine.lookup(nothing, hashing.hash_rows(nothing)).found

    assert (len(found), int(found.weights.sum())) == (1, 14)
