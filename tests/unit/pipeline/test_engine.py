"""The engine: what it owes to those who call it after something went wrong. Kills are in `tests/crash`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crash.pipeline_bench import Bench
from crash.pipeline_circuit import FRESH, PLANS
from tidemill.base.bridge import LoopThread
from tidemill.pipeline.engine import Policy
from tidemill.pipeline.errors import ForeignState, NoSuchName, NotOpen, StepAborted, StepFailed
from tidemill.pipeline.log.head import HEADS
from tidemill.pipeline.log.root import ROOTS
from tidemill.pipeline.runtimes.inline import InlineRuntime
from tidemill.pipeline.state.merges import Merge, Merged, MergeUnit
from tidemill.store import Collection, OutcomeUnknown
from tidemill.store.blobs import BlobNoSpace


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    with LoopThread() as running:
        yield running


@pytest.fixture
def bench(tmp_path: Path, loop: LoopThread) -> Bench:
    return Bench(tmp_path / "one", loop)


@pytest.fixture
def peaceful(tmp_path: Path, loop: LoopThread) -> Bench:
    """Another pipeline, to do the same without what goes wrong."""
    return Bench(tmp_path / "other", loop)


def lose_the_answer(bench: Bench) -> None:
    """Let a step be done without its owner hearing so."""
    bench.append()
    assign = bench.engine._input.assign

    async def assign_and_lose(*args: Any, **options: Any) -> Any:
        record = await assign(*args, **options)
        bench.store.losing = True
        return record

    bench.engine._input.assign = assign_and_lose  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown):
        bench.engine.step()
    bench.engine._input.assign = assign  # type: ignore[method-assign]
    bench.store.away = False


def test_a_step_whose_answer_was_lost_is_in_the_state_of_the_next(bench: Bench, peaceful: Bench) -> None:
    bench.step()
    lose_the_answer(bench)
    bench.step()
    for _ in range(3):
        peaceful.step()

    assert bench.views == peaceful.views


def test_a_step_whose_answer_was_lost_is_in_the_next_version(bench: Bench, peaceful: Bench) -> None:
    lose_the_answer(bench)
    bench.engine.commit()
    bench.open()
    peaceful.step()

    assert bench.engine.root.version.step == 1
    assert bench.views == peaceful.views


def test_a_view_added_while_a_step_is_under_way_is_filled_by_it(bench: Bench, peaceful: Bench) -> None:
    bench.step()
    bench.append()
    bench.runtime.broken = True
    with pytest.raises(StepFailed):
        bench.engine.step()
    bench.engine.change_plan(PLANS[1], FRESH[1])
    bench.runtime.broken = False
    bench.engine.step()
    bench.step()
    peaceful.step()
    peaceful.engine.change_plan(PLANS[1], FRESH[1])
    peaceful.step()
    peaceful.step()

    assert bench.views == peaceful.views


def test_a_view_created_again_starts_empty(bench: Bench, peaceful: Bench) -> None:
    """Also when its first life ended without a version after it, so that the last one has its rows."""
    peaceful.step()
    bench.step()
    for pipeline in (bench, peaceful):
        pipeline.engine.change_plan(PLANS[1], FRESH[1])
        pipeline.step()
    bench.engine.change_plan(PLANS[0], frozenset())
    bench.open()
    bench.engine.change_plan(PLANS[1], FRESH[1])
    bench.open()
    bench.engine.step()

    assert bench.views == peaceful.views


def test_the_states_of_a_dropped_view_are_gone_after_a_new_start(bench: Bench) -> None:
    bench.engine.change_plan(PLANS[1], FRESH[1])
    bench.step()
    bench.engine.change_plan(PLANS[0], frozenset())
    kept = bench.engine.runs.by_state.keys()
    bench.open()

    assert bench.engine.runs.by_state.keys() == kept


def test_a_pipeline_whose_step_cannot_end_can_be_opened(bench: Bench, peaceful: Bench) -> None:
    bench.step()
    bench.append()
    bench.runtime.broken = True
    with pytest.raises(StepFailed):
        bench.engine.step()
    bench.open()
    peaceful.step()

    assert bench.views == peaceful.views
    assert bench.engine.root.under_way is not None
    assert bench.engine.step().number == 1


def test_a_pin_keeps_its_version_from_the_sweep(bench: Bench) -> None:
    bench.engine.policy = Policy(grace_s=-1.0, commit_steps=1)
    bench.step()
    bench.engine.pins.add("first", bench.engine.commit())
    pinned = set(bench.engine.runs.names())
    for _ in range(4):
        bench.step()
        bench.engine.sweep()
    bench.open()

    assert set(bench.engine.pins.runs("first").names()) == pinned <= bench.names
    bench.engine.pins.remove("first")
    bench.engine.sweep()
    assert not pinned <= bench.names
    with pytest.raises(NoSuchName, match="no pin 'first'"):
        bench.engine.pins.runs("first")


@pytest.mark.parametrize("bad", [True, False])
def test_a_step_that_fails_leaves_no_files(bench: Bench, peaceful: Bench, bad: bool) -> None:
    bench.step()
    offset = bench.append_bad() if bad else bench.append()
    bench.runtime.broken = not bad
    before = bench.names
    with pytest.raises(StepAborted if bad else StepFailed):
        bench.engine.step()

    assert bench.names == before
    bench.runtime.broken = False
    if bad:
        bench.engine.discard(offset)
        bench.append()
    bench.engine.step()
    for _ in range(2):
        peaceful.step()
    assert bench.views == peaceful.views


def test_a_done_step_that_fails_when_it_is_run_again_keeps_its_output(bench: Bench) -> None:
    lose_the_answer(bench)
    bench.runtime.broken = True
    with pytest.raises(StepFailed):
        bench.engine.step()
    bench.runtime.broken = False
    bench.engine.step()

    assert bench.engine.sweep() == ()
    assert {segment.file.name for segment in bench.engine.changes("totals", -1, 1)} <= bench.names


def test_a_merge_that_fails_leaves_no_files(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.step()
    engine = bench.engine
    merge = Merge(engine.runs.of(PLANS[0].circuit.fingerprints[1]), (0, 1 << 63))
    before, units = bench.names, iter(range(2))

    def merge_one(given: Sequence[MergeUnit]) -> tuple[Merged, ...]:
        if next(units):
            raise BlobNoSpace("the disk is full")
        merged = InlineRuntime.merge(bench.runtime, given)
        assert bench.names > before
        return merged

    monkeypatch.setattr(bench.runtime, "merge", merge_one)
    engine._merging._work([merge], engine.root.term, engine.root.last)

    assert bench.names == before
    assert not engine._merging.names()


def test_a_sweep_spares_a_merge_that_is_not_adopted_yet(bench: Bench) -> None:
    """However long ago its first files were written."""
    bench.step()
    engine = bench.engine
    merge = Merge(engine.runs.of(PLANS[0].circuit.fingerprints[1]), (0,))
    engine._merging._work([merge], engine.root.term, engine.root.last)
    engine.policy = Policy(grace_s=-1.0)
    engine.sweep()
    bench.step()

    assert not engine.runs.has(merge.names)
    assert engine.commit() == 2


def test_the_clock_of_steps_is_the_stores_and_never_goes_back(bench: Bench) -> None:
    clocks = []
    for bench.store.time in (2000, 1500, 2500):
        clocks.append(bench.step().clock)

    assert clocks == [2000, 2000, 2500]


def test_a_step_is_done_even_if_what_comes_after_it_fails(bench: Bench, peaceful: Bench) -> None:
    """A version that could not be committed is made up for after the next step."""
    bench.engine.policy = Policy(commit_steps=1, grace_s=0.0)
    commit, sweep = bench.engine.commit, bench.engine.sweep

    def full(*_: object) -> Any:
        raise OSError("no space left")

    bench.engine.commit = bench.engine.sweep = full  # type: ignore[method-assign]
    assert bench.step().state == "done"
    assert bench.engine.root.version.step == 0

    bench.engine.commit, bench.engine.sweep = commit, sweep  # type: ignore[method-assign]
    assert bench.step().number == bench.engine.root.version.step - 1
    peaceful.step()
    peaceful.step()
    assert bench.views == peaceful.views


def test_a_former_owner_hears_so_even_after_its_step(bench: Bench) -> None:
    bench.engine.policy = Policy(commit_steps=1)
    commit, first = bench.engine.commit, bench.engine

    def late() -> int:
        bench.open()
        return commit()

    first.commit = late  # type: ignore[method-assign]
    with pytest.raises(NotOpen):
        bench.step()
    first.abandon()


@pytest.mark.parametrize("collection", [HEADS, ROOTS], ids=lambda collection: collection.name)
def test_a_document_of_an_unknown_format_is_refused_and_nothing_is_changed(
    bench: Bench, collection: Collection
) -> None:
    def rewrite(**fields: object) -> int:
        found = bench.place.run(bench.store.get(collection, bench.place.key))
        body = {**found.body, **fields}
        revision: int = bench.place.run(
            bench.store.replace(collection, bench.place.key, body, expect=found.revision)
        )
        return revision

    bench.step()
    bench.engine.close()
    term = bench.engine.root.term
    revision = rewrite(format=99)
    with pytest.raises(ForeignState, match="format 99, and this release reads 1"):
        bench.open()

    assert rewrite(format=1) == revision + 1
    bench.open()
    assert bench.engine.root.term == term + 1


def test_a_plan_of_an_unknown_format_is_refused(bench: Bench) -> None:
    bench.engine.change_plan(replace(PLANS[0], format=99), frozenset())

    with pytest.raises(ForeignState, match="plan has format 99, and this release reads 1"):
        bench.open()
