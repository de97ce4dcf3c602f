"""A pipeline that runs by itself: the same views as with steps made by hand, whatever happens on the way."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from crash.pipeline_bench import Bench, FailingRuntime
from crash.pipeline_circuit import FRESH, PLANS
from tidemill.base.bridge import LoopThread
from tidemill.pipeline.continuous import Continuous
from tidemill.pipeline.engine import Policy
from tidemill.pipeline.errors import Forgotten, NoSuchName, NotNow, NotOpen, StepAborted, StepFailed
from tidemill.pipeline.state.files import RunFiles
from tidemill.pipeline.task import Report, StepTask

PATIENCE_S = 30.0


class EveryThirdFails(FailingRuntime):
    attempts = 0

    def run(self, task: StepTask, deadline_s: float) -> tuple[Report, ...]:
        self.attempts += 1
        self.broken = self.attempts % 3 == 0
        return super().run(task, deadline_s)


class HangingRuntime(FailingRuntime):
    """The first step hangs until it is cancelled."""

    def __init__(self, files: RunFiles, workers: int) -> None:
        super().__init__(files, workers)
        self.cancelled = threading.Event()

    def run(self, task: StepTask, deadline_s: float) -> tuple[Report, ...]:
        if not self.cancelled.is_set():
            self.cancelled.wait(PATIENCE_S)
            raise StepFailed("it was cancelled")
        return super().run(task, deadline_s)

    def cancel(self) -> None:
        self.cancelled.set()


class HeldRuntime(FailingRuntime):
    """Every step waits for a leave."""

    def __init__(self, files: RunFiles, workers: int) -> None:
        super().__init__(files, workers)
        self.leave, self.begun = threading.Semaphore(0), threading.Semaphore(0)

    def run(self, task: StepTask, deadline_s: float) -> tuple[Report, ...]:
        self.begun.release()
        assert self.leave.acquire(timeout=PATIENCE_S)
        return super().run(task, deadline_s)


class RunningBench(Bench):
    """The pipeline with what runs it; not started."""

    def open(self) -> None:
        super().open()
        self.run = Continuous(self.engine)

    def wait_for(self, what: Callable[[], bool]) -> None:
        """Until this is so; looked at whenever something happened."""
        while True:
            seen = self.run._ticks
            if what():
                return
            assert self.run._await_tick(seen, PATIENCE_S)


Make = Callable[..., RunningBench]


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    with LoopThread() as running:
        yield running


@pytest.fixture
def make(tmp_path: Path, loop: LoopThread) -> Make:
    """Makes a pipeline, with a runtime and policy of its own. Its views were filled by step 0."""

    def made(runtime: type[FailingRuntime] = FailingRuntime, policy: Policy | None = None) -> RunningBench:
        bench = RunningBench(tmp_path / "one", loop)
        bench.engine.step()
        bench.engine.close()
        bench.runtime_type, bench.policy = runtime, policy or bench.policy
        bench.open()
        return bench

    return made


@pytest.fixture
def bench(make: Make) -> RunningBench:
    return make()


@pytest.fixture
def peaceful(tmp_path: Path, loop: LoopThread) -> Bench:
    """Another pipeline, to make the same steps by hand."""
    return Bench(tmp_path / "other", loop)


def test_views_are_those_of_steps_made_by_hand(bench: RunningBench, peaceful: Bench) -> None:
    bench.run.start()
    for _ in range(5):
        bench.append()
        peaceful.step()
    record = bench.run.wait(offset=4, timeout_s=PATIENCE_S)

    assert record.state == "done"
    assert 4 in record.offsets
    assert bench.views == peaceful.views
    assert bench.run.stop() == record.number + 1


def test_it_pauses_before_a_step_with_a_version_and_goes_on_there(bench: RunningBench) -> None:
    bench.run.start()
    bench.append()
    assert bench.run.wait(offset=0, timeout_s=PATIENCE_S).number == 1
    assert bench.run.pause() == 2
    assert bench.engine.root.version.step == 2

    bench.append()
    assert [waiting.entry.offset for waiting in bench.engine.pending()] == [1]
    assert bench.run.pause() == 2

    bench.run.start()
    assert bench.run.wait(offset=1, timeout_s=PATIENCE_S).number == 2
    assert bench.run.stop() == 3
    assert bench.engine.root.version.step == 3


def test_pausing_ends_the_step_under_way_and_takes_no_other(make: Make) -> None:
    bench = make(HeldRuntime)
    runtime = bench.runtime
    assert isinstance(runtime, HeldRuntime)
    bench.append()
    bench.run.start()
    assert runtime.begun.acquire(timeout=PATIENCE_S)
    bench.append()
    pausing = threading.Thread(target=bench.run.pause)
    pausing.start()
    runtime.leave.release()
    pausing.join(PATIENCE_S)

    assert bench.engine.root.version.step == bench.engine.runs.step == 2
    assert bench.engine.root.position == 1


def test_stopping_takes_what_was_appended_first(bench: RunningBench, peaceful: Bench) -> None:
    for _ in range(3):
        bench.append()
        peaceful.step()
    bench.run.start()
    bench.run.stop()

    assert bench.engine.pending() == []
    assert bench.views == peaceful.views


def test_stopping_fills_new_views_first(bench: RunningBench, peaceful: Bench) -> None:
    bench.step()
    bench.engine.change_plan(PLANS[1], FRESH[1])
    bench.run.start()
    bench.run.stop()
    peaceful.engine.change_plan(PLANS[1], FRESH[0] | FRESH[1])
    peaceful.step()

    assert bench.views == peaceful.views


def test_versions_are_committed_under_load(bench: RunningBench, peaceful: Bench) -> None:
    bench.run.start()
    appending = threading.Thread(target=lambda: [bench.append() for _ in range(20)])
    appending.start()
    versions = [bench.run.checkpoint() for _ in range(5)]
    appending.join(PATIENCE_S)
    bench.run.stop()
    for _ in range(20):
        peaceful.step()

    assert versions == sorted(versions)
    assert bench.views == peaceful.views
    bench.open()
    assert bench.views == peaceful.views


def test_a_version_is_committed_after_so_many_steps(make: Make) -> None:
    bench = make(policy=Policy(commit_steps=2))
    bench.run.start()
    for _ in range(4):
        bench.run.wait(offset=bench.append(), timeout_s=PATIENCE_S)
    bench.wait_for(lambda: bench.engine.root.version.step == 5)

    assert bench.run.pause() == 5


def test_a_version_is_committed_after_a_while_even_without_input(make: Make) -> None:
    bench = make(policy=Policy(commit_s=0.05))
    bench.run.start()
    bench.append()
    bench.wait_for(lambda: bench.engine.root.version.step == 2)

    assert bench.run.pause() == 2


def test_failures_of_the_machinery_are_recovered_from(make: Make, peaceful: Bench) -> None:
    bench = make(EveryThirdFails)
    bench.run.start()
    for _ in range(7):
        bench.run.wait(offset=bench.append(), timeout_s=PATIENCE_S)
        peaceful.step()

    assert bench.views == peaceful.views
    assert bench.run.stop() == 8
    assert isinstance(bench.runtime, EveryThirdFails)
    assert bench.runtime.attempts == 10


def test_a_step_past_its_deadline_is_cancelled_and_tried_again(make: Make, peaceful: Bench) -> None:
    bench = make(HangingRuntime, Policy(deadline_s=1.0))
    bench.run.start()
    bench.run.wait(offset=bench.append(), timeout_s=PATIENCE_S)
    peaceful.step()

    assert isinstance(bench.runtime, HangingRuntime)
    assert bench.runtime.cancelled.is_set()
    assert bench.views == peaceful.views
    assert bench.run.stop() == 2


def test_a_commit_that_fails_is_tried_again(bench: RunningBench) -> None:
    commit, full = bench.engine.commit, [OSError("no space left")]

    def late() -> int:
        if full:
            raise full.pop()
        return commit()

    bench.engine.commit = late  # type: ignore[method-assign]
    bench.run.start()
    bench.run.wait(offset=bench.append(), timeout_s=PATIENCE_S)

    assert bench.run.pause() == bench.engine.root.version.step == 2


def test_a_lost_answer_is_made_up_for(bench: RunningBench, peaceful: Bench) -> None:
    bench.run.start()
    bench.run.wait(offset=bench.append(), timeout_s=PATIENCE_S)
    bench.store.losing = True
    bench.append()
    bench.wait_for(lambda: bench.store.away)
    bench.store.away = False
    for _ in range(2):
        peaceful.step()

    assert bench.run.wait(offset=1, timeout_s=PATIENCE_S).number == 2
    assert bench.views == peaceful.views
    assert bench.run.pause() == 3


def test_a_former_owner_stops_and_says_so(bench: RunningBench) -> None:
    former = bench.run
    former.start()
    bench.open()
    offset = bench.append()

    with pytest.raises(NotOpen):
        former.wait(offset=offset, timeout_s=PATIENCE_S)
    with pytest.raises(NotOpen):
        former.pause()
    assert not former.running
    assert bench.engine.step().offsets == (offset,)


def test_another_error_ends_it_and_it_can_be_started_again(bench: RunningBench) -> None:
    bench.runtime.error = ZeroDivisionError("a bug")
    bench.run.start()
    offset = bench.append()
    with pytest.raises(ZeroDivisionError):
        bench.run.wait(offset=offset, timeout_s=PATIENCE_S)
    with pytest.raises(ZeroDivisionError):
        bench.run.stop()

    bench.runtime.error = None
    bench.run.start()
    assert bench.run.wait(offset=offset, timeout_s=PATIENCE_S).number == 1
    assert bench.run.stop() == 2


# Data that makes steps fail


def test_an_append_that_fails_blocks_until_it_is_discarded(bench: RunningBench, peaceful: Bench) -> None:
    bench.run.start()
    bad = bench.append_bad()
    with pytest.raises(StepAborted) as aborted:
        bench.run.wait(offset=bad, timeout_s=PATIENCE_S)
    good = bench.append()
    assert bench.run.stop() == 2

    bench.run.start()
    with pytest.raises(StepAborted):
        bench.run.wait(step=2, timeout_s=PATIENCE_S)
    bench.engine.discard(bad)
    record = bench.run.wait(offset=good, timeout_s=PATIENCE_S)
    peaceful.step()

    assert aborted.value.offsets == (bad,)
    assert (record.number, record.offsets) == (3, (good,))
    assert bench.views == peaceful.views
    with pytest.raises(NoSuchName, match="discarded"):
        bench.run.wait(offset=bad)
    assert bench.run.stop() == 4


def test_an_append_that_a_step_is_trying_is_discarded_when_that_step_has_ended(make: Make) -> None:
    bench = make(HeldRuntime)
    runtime = bench.runtime
    assert isinstance(runtime, HeldRuntime)
    bench.run.start()
    bad = bench.append_bad()
    assert runtime.begun.acquire(timeout=PATIENCE_S)
    with ThreadPoolExecutor(1) as other:
        discarding = other.submit(bench.run.discard, bad)
        with pytest.raises(NotNow, match="under way"):
            bench.engine.discard(bad)
        runtime.leave.release(10)
        discarding.result(PATIENCE_S)

    record = bench.run.wait(offset=bench.append(), timeout_s=PATIENCE_S)
    assert (record.state, bad in record.offsets) == ("done", False)
    bench.run.stop()


def test_an_append_that_a_step_took_meanwhile_is_not_discarded(make: Make) -> None:
    bench = make(HeldRuntime)
    runtime = bench.runtime
    assert isinstance(runtime, HeldRuntime)
    bench.run.start()
    offset = bench.append()
    assert runtime.begun.acquire(timeout=PATIENCE_S)
    with ThreadPoolExecutor(1) as other:
        discarding = other.submit(bench.run.discard, offset)
        runtime.leave.release()
        with pytest.raises(NoSuchName, match="not pending"):
            discarding.result(PATIENCE_S)
    bench.run.stop()


def test_those_that_were_in_a_step_with_a_bad_one_get_their_own(bench: RunningBench) -> None:
    good, bad = bench.append(), bench.append_bad()
    bench.run.start()

    assert bench.run.wait(offset=good, timeout_s=PATIENCE_S).number == 2
    with pytest.raises(StepAborted):
        bench.run.wait(offset=bad, timeout_s=PATIENCE_S)
    assert bench.run.pause() == 4


def test_what_failed_is_tried_again_when_the_plan_has_changed(bench: RunningBench) -> None:
    bench.runtime.error = StepAborted("[DIVIDE_BY_ZERO]")
    bench.run.start()
    offset = bench.append()
    with pytest.raises(StepAborted):
        bench.run.wait(offset=offset, timeout_s=PATIENCE_S)
    with bench.run.paused():
        bench.runtime.error = None
        bench.engine.change_plan(PLANS[1], FRESH[1])

    assert bench.run.wait(offset=offset, timeout_s=PATIENCE_S).number == 2
    assert bench.run.pause() == 3


def test_a_view_added_while_it_runs_is_filled(bench: RunningBench, peaceful: Bench) -> None:
    bench.run.start()
    bench.run.wait(offset=bench.append(), timeout_s=PATIENCE_S)
    with bench.run.paused():
        bench.engine.change_plan(PLANS[1], FRESH[1])
    bench.run.wait(step=2, timeout_s=PATIENCE_S)
    peaceful.step()
    peaceful.engine.change_plan(PLANS[1], FRESH[1])
    peaceful.engine.step()

    assert bench.views == peaceful.views
    assert bench.run.pause() == 3


def test_a_view_that_cannot_be_filled_is_not_tried_over_and_over(bench: RunningBench) -> None:
    bench.runtime.error = StepAborted("[DIVIDE_BY_ZERO]")
    bench.engine.change_plan(PLANS[1], FRESH[1])
    bench.run.start()
    with pytest.raises(StepAborted):
        bench.run.wait(step=1, timeout_s=PATIENCE_S)

    assert bench.run.pause() == 2


# What is refused


def test_while_it_runs_nothing_else_makes_steps(bench: RunningBench) -> None:
    bench.run.start()
    with pytest.raises(NotNow, match="pause"):
        bench.run.start()
    with pytest.raises(NotNow, match=r"step\(\): the pipeline runs by itself"), bench.run.idle("step()"):
        pass
    bench.run.pause()

    with bench.run.idle("step()"):
        bench.engine.step()


def test_it_is_not_waited_for_what_will_not_come(bench: RunningBench) -> None:
    bench.step()
    assert bench.run.wait(step=1) == bench.run.wait(offset=0)
    with pytest.raises(NotNow, match="start"):
        bench.run.wait(step=2)
    with pytest.raises(ValueError, match="a step or"):
        bench.run.wait()

    bench.run.start()
    with pytest.raises(TimeoutError, match="append 1 is not done"):
        bench.run.wait(offset=1, timeout_s=0.0)
    bench.run.pause()


def test_it_is_not_waited_for_what_is_forgotten(bench: RunningBench) -> None:
    bench.place.run(bench.engine._owner.update(lambda root: replace(root, retained_steps=1)))
    for _ in range(3):
        bench.step()
        bench.engine.commit()

    with pytest.raises(Forgotten, match="step 0"):
        bench.run.wait(step=0)
    with pytest.raises(Forgotten, match="append 0"):
        bench.run.wait(offset=0)
