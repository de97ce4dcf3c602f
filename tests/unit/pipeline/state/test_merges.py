"""Merges: the policy as arithmetic, and the act at random moments while pipeline workers come and go."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidemill.pipeline.state import merges
from tidemill.pipeline.state.files import RunFiles, RunWriter
from tidemill.pipeline.state.merges import (
    OVERDUE_DEPTH,
    UNIT_ROWS,
    YOUNG_ROWS,
    Merge,
    Merged,
    MergeUnit,
    absorbed,
    depth,
    overdue,
    plan_merges,
    run_merge,
)
from tidemill.pipeline.state.seal import seal
from tidemill.pipeline.state.spec import HASHES, Part, RunRef, StateSpec
from tidemill.pipeline.state.spine import Spine
from tidemill.pipeline.zset import ZSet, hash_rows
from tidemill.store.blobs import BlobDamaged, Blobs
from unit.pipeline.state.model import Change, Row, add, scanned, zset

INTS = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def ref(lo: int, hi: int, rows: int, name: str = "", layer: int = 0, lane: int | None = None) -> RunRef:
    return RunRef("s", name or f"r{lo}-{hi}-{rows}", 40 * rows, "1-", lo, hi, rows, layer or rows, lane)


def many(count: int, rows: int, lo: int = 0, hi: int = HASHES - 1) -> list[RunRef]:
    return [ref(lo, hi, rows, f"{lo}-{rows}-{number}") for number in range(count)]


def test_steps_of_any_size_leave_few_runs_and_rewrite_little() -> None:
    for size in (1, 100, 5_000):
        runs: list[int] = []
        written = 0
        for _ in range(2_000):
            young = [rows for rows in runs if rows <= YOUNG_ROWS]
            old = [rows for rows in runs if rows > YOUNG_ROWS]
            count = absorbed([*young, size])
            total = size + sum(young[len(young) - count + 1 :])
            written += total
            runs = [*old, *young[: len(young) - count + 1], total]
            assert len([rows for rows in runs if rows <= YOUNG_ROWS]) <= 5

        assert sum(runs) == 2_000 * size
        assert written / 2_000 <= 2**13 + 12 * size


def test_runs_of_one_tier_are_merged_when_they_pile_up() -> None:
    assert plan_merges(many(2, 100_000)) == []
    [merge] = plan_merges([*many(3, 100_000), *many(1, 5_000_000)])

    assert sorted(merge.names) == ["0-100000-0", "0-100000-1", "0-100000-2"]


def test_large_runs_are_merged_many_at_a_time() -> None:
    assert plan_merges(many(9, 500_000)) == []
    assert plan_merges(many(2, 500_000), calm=True) == []
    assert len(plan_merges(many(3, 500_000), calm=True)) == 1
    [merge] = plan_merges([*many(6, 500_000), *many(4, 2_000_000), *many(1, 20_000_000)])

    assert len(merge.inputs) == 10
    assert sum(run.rows for run in merge.inputs) == 11_000_000


def test_a_load_in_steps_of_any_size_stays_below_the_depth_at_which_steps_wait() -> None:
    for rows in (40_000, 300_000, 1_000_000):
        runs: list[RunRef] = []
        written = 0
        for step in range(1_000):
            runs.append(ref(0, HASHES - 1, rows, f"s{step}"))
            while due := plan_merges(runs):
                gone = set(due[0].names)
                written += (size := sum(run.rows for run in due[0].inputs))
                kept = [run for run in runs if run.name not in gone]
                runs = [*kept, ref(0, HASHES - 1, size, f"m{step}-{size}")]
            assert not overdue(runs)

        assert written <= 5 * rows * 1_000


def test_what_is_busy_or_of_another_lane_or_state_stays() -> None:
    runs = many(3, 100_000)
    lanes = [msgspec.structs.replace(run, lane=lane) for lane, run in enumerate(runs)]
    states = [msgspec.structs.replace(run, state=run.name) for run in runs]

    assert plan_merges(runs, busy={runs[1].name}) == []
    assert plan_merges(lanes) == []
    assert plan_merges(states) == []


def test_disjoint_runs_are_merged_apart_and_do_not_count_as_deep() -> None:
    half = HASHES // 2
    low, high = many(3, 100_000, 0, half - 1), many(3, 100_000, half)
    layer = [ref(at, at, 500_000, f"l{at}", layer=50_000_000) for at in range(100)]

    assert depth([*low, *high]) == 3
    assert {merge.names for merge in plan_merges([*low, *high])} == {
        tuple(run.name for run in group) for group in (low, high)
    }
    assert plan_merges(layer) == []
    assert not overdue(layer)


def test_units_are_of_bounded_size_and_cover_every_hash_once() -> None:
    [merge] = plan_merges([*many(9, 2_000_000), ref(5, HASHES // 8, 2_000_000, "narrow")])
    units = merge.units("p", 1, 2)

    assert len(units) >= 20_000_000 // UNIT_ROWS
    assert (units[0].lo, units[-1].hi) == (0, HASHES - 1)
    assert all(unit.hi + 1 == after.lo for unit, after in itertools.pairwise(units))
    for unit in units:
        rows = sum(
            run.rows * (min(run.hi, unit.hi) - max(run.lo, unit.lo)) / (run.hi - run.lo)
            for run in unit.inputs
        )
        assert rows < 1.1 * UNIT_ROWS
    assert all(msgspec.json.decode(msgspec.json.encode(unit), type=MergeUnit) == unit for unit in units)


def test_runs_of_few_hashes_are_cut_without_empty_units() -> None:
    for runs in (
        [ref(7, 7, 2_000_000, str(n)) for n in range(10)],
        [ref(0, 1, 2_000_000, str(n)) for n in range(10)],
    ):
        [merge] = plan_merges(runs)

        assert all(unit.lo <= unit.hi for unit in merge.units("p", 1, 1))
        assert len(set(merge.cuts)) == len(merge.cuts)


def test_steps_wait_when_merges_do_not_keep_up() -> None:
    assert not overdue(many(OVERDUE_DEPTH, 10))
    assert overdue(many(OVERDUE_DEPTH + 1, 10))


class Pipeline:
    """One state in the hands of a changing number of pipeline workers, and of merges."""

    def __init__(self, spec: StateSpec, files: RunFiles) -> None:
        self.spec, self.files = spec, files
        self.refs: list[RunRef] = []
        self.model = Counter[Row]()
        self.step_number = 0

    def spines(self, workers: int) -> Iterator[Spine]:
        return (Spine(self.spec, Part(worker, workers), self.files, self.refs) for worker in range(workers))

    def step(self, change: Change, workers: int) -> None:
        z = zset(self.spec.schema, change)
        hashes = hash_rows(z.rows, self.spec.key)
        for worker, spine in enumerate(list(self.spines(workers))):
            lo, hi = spine.part.lo, spine.part.hi - 1
            own = (hashes >= np.uint64(lo)) & (hashes <= np.uint64(hi))
            mine = own if self.spec.aligned else np.arange(len(z)) % workers == worker
            spine.add(ZSet(z.rows, z.weights).filter(mine))
            sealed = seal(spine, RunWriter(self.files, "p", 1, self.step_number, 0, worker))
            self.refs = [run for run in self.refs if run.name not in sealed.removed] + list(sealed.added)
        add(self.model, change)
        self.step_number += 1

    def check(self, workers: int) -> None:
        total = Counter[Row]()
        for spine in self.spines(workers):
            part = scanned(spine)
            assert self.spec.aligned is False or not part.keys() & total.keys()
            for row, weight in part.items():
                total[row] += weight
        assert Counter({row: weight for row, weight in total.items() if weight}) == self.model

    def adopt(self, merge: Merge, merged: Sequence[Merged]) -> None:
        assert set(merge.names) <= {run.name for run in self.refs}
        self.refs = [run for run in self.refs if run.name not in merge.names] + list(merge.result(merged))


rows = st.tuples(st.integers(0, 30), st.integers(0, 1))
changes = st.lists(st.tuples(rows, st.integers(-1, 2)), max_size=20)


@pytest.mark.parametrize("aligned", [True, False], ids=["aligned", "lanes"])
@given(steps=st.lists(st.tuples(changes, st.sampled_from([1, 2, 3]), st.booleans()), max_size=10))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_workers_and_merges_come_and_go_and_the_sum_stays(
    files: RunFiles,
    monkeypatch: pytest.MonkeyPatch,
    aligned: bool,
    steps: list[tuple[Change, int, bool]],
) -> None:
    pipeline = Pipeline(StateSpec("s", INTS, (0,), aligned=aligned), files)
    with monkeypatch.context() as patch:
        for name, value in (("_FAN", 2), ("_YOUNG_FAN", 2), ("UNIT_ROWS", 5), ("_TRIFLE_ROWS", 0)):
            patch.setattr(merges, name, value)
        for change, workers, merging in steps:
            under_way = [
                (merge, [run_merge(files, unit) for unit in merge.units("p", 1, 9)])
                for merge in (plan_merges(pipeline.refs) if merging else [])
            ]
            pipeline.step(change, workers)  # between a merge and its adoption
            there = {run.name for run in pipeline.refs}
            for merge, merged in under_way:
                if there.issuperset(merge.names):
                    pipeline.adopt(merge, merged)
            for count in (workers, 1, 2, 3):
                pipeline.check(count)


def test_regrouping_shards_moves_and_writes_no_file(files: RunFiles, blobs: Blobs) -> None:
    pipeline = Pipeline(StateSpec("s", INTS, (0,)), files)
    for workers in (1, 2, 3, 1):
        pipeline.step([((number, workers), 1) for number in range(200)], workers)
        before = {(entry.name, entry.published_at) for entry in blobs.entries()}
        for count in (1, 2, 3, 64):
            pipeline.check(count)

        assert {(entry.name, entry.published_at) for entry in blobs.entries()} == before


def test_a_merge_says_how_large_its_layer_is(files: RunFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merges, "UNIT_ROWS", 100)
    pipeline = Pipeline(StateSpec("s", INTS, (0,)), files)
    inputs = []
    for turn in range(3):
        pipeline.refs = []
        pipeline.step([((number, turn), 1) for number in range(200)], 1)
        inputs += pipeline.refs
    merge = Merge(tuple(inputs), merges._cuts(inputs))
    runs = merge.result([run_merge(files, unit) for unit in merge.units("p", 1, 1)])

    assert len(runs) == 6
    assert {run.layer for run in runs} == {sum(run.rows for run in runs)} == {600}


def test_a_merge_of_opposites_leaves_nothing(files: RunFiles) -> None:
    pipeline = Pipeline(StateSpec("s", INTS, (0,)), files)
    inputs = []
    for weight in (1, -1):
        pipeline.refs = []
        pipeline.step([((number, 0), weight) for number in range(20)], 1)
        inputs += pipeline.refs
    [unit] = Merge(tuple(inputs), (0,)).units("p", 1, 1)

    assert run_merge(files, unit) == Merged()


def test_a_merge_does_not_spread_damage(files: RunFiles, blobs: Blobs) -> None:
    spec = StateSpec("s", INTS, (0,))
    pipeline = Pipeline(spec, files)
    pipeline.step([((number, 0), 1) for number in range(20_000)], 1)
    [run] = pipeline.refs
    path = blobs.shelf.path(run.name)  # type: ignore[attr-defined]
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    fresh = RunFiles(blobs)
    fresh.open(run, spec)
    [unit] = Merge((run, run), (0,)).units("p", 1, 1)

    with pytest.raises(BlobDamaged, match="block"):
        run_merge(fresh, unit)
    with pytest.raises(BlobDamaged, match="block"):
        fresh.verify(run)
