import asyncio
from collections.abc import Callable, Sequence

import pytest

from tidemill.pipeline.coordinator import (
    Abandon,
    Answer,
    Ask,
    Asking,
    Begin,
    CheckpointDue,
    Clearing,
    Commit,
    CommitDone,
    Committing,
    Course,
    Effect,
    Event,
    Idle,
    Lost,
    NoSharedVersion,
    Pause,
    Pausing,
    PipelineCoordinator,
    Running,
    Start,
    Starting,
    StepBegan,
    StepEnded,
    Stop,
    Stopping,
    Tick,
    decide,
    newest_common,
)
from tidemill.pipeline.errors import NotOpen
from tidemill.pipeline.lifecycle import IllegalMove

FRESH = Course(("a", "b"), deadline_s=10.0)


def after(course: Course, *events: Event, now: float = 0.0) -> tuple[Course, list[Effect]]:
    effects: list[Effect] = []
    for event in events:
        course, effects = decide(course, event, now)
    return course, effects


def both(attempt: int, phase: type, *values: object) -> Sequence[Answer]:
    told = values or (None, None)
    return [Answer(worker, attempt, phase, value) for worker, value in zip("ab", told, strict=True)]


RUNNING, _ = after(FRESH, Begin(), *both(0, Asking, (0, 1), (0, 1)), *both(0, Starting))
STOPPING, _ = after(RUNNING, CheckpointDue(), *both(0, Pausing, 5, 6))
COMMITTING, _ = after(STOPPING, *both(0, Stopping))


def test_the_newest_common_version_is_started_on_all() -> None:
    course, asked = after(FRESH, Begin())
    course, effects = after(course, *both(0, Asking, (3, 5), (4, 6)))

    assert asked == [Ask("a"), Ask("b")]
    assert effects == [Start("a", 4), Start("b", 4)]
    assert after(course, *both(0, Starting))[0].phase == Running(4)


def test_no_shared_version_is_fatal() -> None:
    with pytest.raises(NoSharedVersion, match="a has 0 to 1, b has 2 to 3"):
        after(FRESH, Begin(), *both(0, Asking, (0, 2), (2, 4)))
    assert newest_common({"a": (0, 2), "b": (1, 3)}) == 1


def test_a_checkpoint_stops_all_at_the_highest_step_and_commits() -> None:
    course, paused = after(RUNNING, CheckpointDue())
    course, stopped = after(course, *both(0, Pausing, 5, 6))
    course, committed = after(course, *both(0, Stopping))

    assert paused == [Pause("a"), Pause("b")]
    assert stopped == [Stop("a", 6), Stop("b", 6)]
    assert committed == [Commit(6)]
    assert after(course, CommitDone(0, 1))[1] == [Ask("a"), Ask("b")]


def test_nothing_goes_on_before_all_have_answered() -> None:
    course, effects = after(STOPPING, Answer("a", 0, Stopping), Answer("a", 0, Stopping))

    assert effects == []
    assert isinstance(course.phase, Stopping)


def test_what_was_committed_must_be_there_afterwards() -> None:
    course, _ = after(COMMITTING, CommitDone(0, 1))

    assert after(course, *both(0, Asking, (0, 2), (1, 2)))[1] == [Start("a", 1), Start("b", 1)]
    with pytest.raises(IllegalMove, match="version 1 was committed, and the newest common one is 0"):
        after(course, *both(0, Asking, (0, 1), (0, 2)))


@pytest.mark.parametrize("course", [RUNNING, STOPPING, COMMITTING, after(FRESH, Begin())[0]])
def test_a_loss_gives_all_up_and_starts_again_from_what_is_there(course: Course) -> None:
    course, abandoned = after(course, Lost(0, "gone"))
    course, asked = after(course, *both(1, Clearing))
    course, started = after(course, *both(1, Asking, (0, 1), (0, 2)))

    assert abandoned == [Abandon("a"), Abandon("b")]
    assert asked == [Ask("a"), Ask("b")]
    assert started == [Start("a", 0), Start("b", 0)]


def test_answers_of_an_earlier_attempt_are_not_heard() -> None:
    course, _ = after(STOPPING, Lost(0, "gone"), *both(1, Clearing))

    assert after(course, *both(0, Asking, (0, 9), (0, 9)))[0] == course
    assert after(course, Lost(0, "gone again"))[0] == course
    assert after(course, CommitDone(0, 1))[0] == course


def test_answers_of_an_earlier_phase_are_not_heard() -> None:
    assert after(STOPPING, *both(0, Pausing, 9, 9)) == (STOPPING, [])


def test_a_step_that_takes_too_long_is_given_up() -> None:
    course, _ = after(RUNNING, StepBegan(), now=100.0)

    assert after(course, Tick(), now=110.0)[1] == []
    assert after(course, Tick(), now=110.1)[1] == [Abandon("a"), Abandon("b")]
    assert after(course, StepEnded(), Tick(), now=200.0)[1] == []
    assert after(RUNNING, Tick(), now=1000.0)[1] == []


def test_a_worker_that_does_not_answer_in_time_is_lost() -> None:
    course, _ = after(RUNNING, CheckpointDue(), now=100.0)

    assert after(course, Tick(), now=109.0)[1] == []
    assert after(course, Tick(), now=111.0)[1] == [Abandon("a"), Abandon("b")]


def test_after_a_halt_nothing_runs() -> None:
    course, effects = after(RUNNING, CheckpointDue(halt=True))
    assert effects == [Pause("a"), Pause("b")]

    course, _ = after(course, *both(0, Pausing, 5, 5), *both(0, Stopping))
    course, effects = after(course, CommitDone(0, 1))

    assert (course.phase, effects) == (Idle(), [])
    assert after(course, Lost(0, "too late"), Tick(), now=1e9) == (course, [])


def test_a_halt_while_starting_comes_after_the_start() -> None:
    course, _ = after(FRESH, Begin(), CheckpointDue(halt=True), *both(0, Asking, (0, 1), (0, 1)))

    assert after(course, *both(0, Starting))[1] == [Pause("a"), Pause("b")]


def test_it_begins_once() -> None:
    with pytest.raises(IllegalMove):
        after(RUNNING, Begin())


def test_a_checkpoint_during_a_checkpoint_is_that_checkpoint() -> None:
    assert after(STOPPING, CheckpointDue()) == (STOPPING, [])
    assert after(COMMITTING, StepBegan()) == (COMMITTING, [])
    assert isinstance(COMMITTING.phase, Committing)


class Handle:
    def __init__(self, name: str, story: list[str]) -> None:
        self.name = name
        self.story = story
        self.newest = 0
        self.step = 0
        self.fail: Exception | None = None
        self.hangs = False

    async def versions(self) -> range:
        return range(max(0, self.newest - 1), self.newest + 1)

    async def start(self, version: int) -> None:
        self.story.append(f"{self.name} starts {version}")
        if self.fail is not None:
            error, self.fail = self.fail, None
            raise error

    async def pause(self) -> int:
        if self.hangs:
            await asyncio.Event().wait()
        return self.step

    async def stop(self, step: int) -> None:
        self.story.append(f"{self.name} stops before {step}")
        self.newest += 1

    async def abandon(self) -> None:
        self.story.append(f"{self.name} is given up")
        self.hangs = False


class Bench:
    def __init__(self, *, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.story: list[str] = []
        self.a, self.b = Handle("a", self.story), Handle("b", self.story)
        self.commit_error: Exception | None = None
        self.coordinator = PipelineCoordinator(
            {"a": self.a, "b": self.b}, self.commit, deadline_s=5.0, tick_s=0.001, clock=clock
        )

    async def commit(self, step: int) -> int:
        if self.commit_error is not None:
            error, self.commit_error = self.commit_error, None
            raise error
        self.story.append(f"version {self.a.newest} before {step}")
        return self.a.newest


async def running(bench: Bench) -> "asyncio.Task[None]":
    task = asyncio.create_task(bench.coordinator.run())
    for _ in range(1000):
        if isinstance(bench.coordinator.course.phase, Running):
            return task
        await asyncio.sleep(0)
    raise AssertionError(f"it does not run: {bench.coordinator.course}")


async def test_the_shell_takes_all_to_a_common_version() -> None:
    bench = Bench()
    bench.a.step, bench.b.step = 4, 7
    task = await running(bench)
    bench.coordinator.tell(CheckpointDue(halt=True))
    await task

    assert bench.story == [
        "a starts 0",
        "b starts 0",
        "a stops before 7",
        "b stops before 7",
        "version 1 before 7",
    ]


async def test_the_shell_starts_all_again_when_one_fails() -> None:
    bench = Bench()
    bench.b.fail = OSError("no memory")
    task = await running(bench)
    bench.coordinator.tell(CheckpointDue(halt=True))
    await task

    assert bench.story[:6] == [
        "a starts 0",
        "b starts 0",
        "a is given up",
        "b is given up",
        "a starts 0",
        "b starts 0",
    ]


async def test_the_shell_starts_all_again_when_one_does_not_answer() -> None:
    times = iter(range(10**6))
    bench = Bench(clock=lambda: float(next(times)))
    task = await running(bench)
    bench.a.hangs = True
    bench.coordinator.tell(CheckpointDue(halt=True))
    await task

    assert "a is given up" in bench.story
    assert bench.story[-1] == "version 1 before 0"


@pytest.mark.parametrize(("error", "fatal"), [(NotOpen("taken over"), True), (OSError("disk full"), False)])
async def test_a_commit_that_fails_is_tried_again_unless_another_owns_the_pipeline(
    error: Exception, *, fatal: bool
) -> None:
    bench = Bench()
    bench.commit_error = error
    task = await running(bench)
    bench.coordinator.tell(CheckpointDue(halt=True))

    if fatal:
        with pytest.raises(NotOpen):
            await task
    else:
        await task
        assert bench.story[-1] == "version 2 before 0"


async def test_a_pipeline_worker_that_ends_by_itself_is_started_again() -> None:
    bench = Bench()
    task = await running(bench)
    bench.coordinator.failed(OSError("disk full"))
    bench.coordinator.tell(CheckpointDue(halt=True))
    await task

    assert bench.story[2:6] == ["a is given up", "b is given up", "a starts 0", "b starts 0"]


@pytest.mark.parametrize("error", [NotOpen("taken over"), ZeroDivisionError("a bug")])
async def test_what_no_new_start_can_mend_ends_the_run(error: Exception) -> None:
    bench = Bench()
    task = await running(bench)
    bench.coordinator.failed(error)

    with pytest.raises(type(error)):
        await task
