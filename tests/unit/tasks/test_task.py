"""The moves of a task."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.store import Document
from tidemill.tasks.errors import IllegalMove
from tidemill.tasks.order import Order, task_for
from tidemill.tasks.policy import JITTER, Policy, backoff_ms
from tidemill.tasks.status import (
    BLOCKED,
    CANCELLED,
    CLAIMED,
    FAILED,
    ORPHANED,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    TERMINATED,
    is_ended,
    is_live,
    is_parked,
)
from tidemill.tasks.task import (
    DELAYED,
    ONWARD,
    TURN_BITS,
    CancelAsked,
    Crashed,
    Due,
    Event,
    Finished,
    GivenBack,
    Left,
    Parked,
    PassedOn,
    RetryAsked,
    Started,
    Stopped,
    Task,
    body_of,
    move,
    task_of,
)

ONCE = Policy()
NOW = 5_000
EVENTS: list[Event] = [
    Started("vm-1"),
    Finished(SUCCEEDED),
    Finished(FAILED),
    Finished(17),
    Crashed("died"),
    Crashed("lost", node_lost=True),
    Stopped("too long"),
    Stopped("asked", cancelled=True),
    GivenBack(),
    Left(200),
    CancelAsked(),
    RetryAsked(),
    Parked(-9),
    Due(),
]


def a_task(status: int = QUEUED, **fields: Any) -> Task:
    task = task_for(Order(queue="work", params={"n": 1}), 1_000, 0)
    node = "vm-1" if is_live(status) else None
    return msgspec.structs.replace(task, status=status, node=node, **fields)


@pytest.mark.parametrize("status", [CLAIMED, RUNNING])
@pytest.mark.parametrize("answer", [SUCCEEDED, 3, 1_000])
def test_a_positive_status_ends_a_task(status: int, answer: int) -> None:
    ended = move(a_task(status), Finished(answer, result=[1], stdout="out"), ONCE, NOW)

    assert (ended.status, ended.ended, ended.attempt) == (answer, NOW, 1)
    assert (ended.result, ended.stdout) == ([1], "out")


@pytest.mark.parametrize("answer", [0, -1, -6])
def test_a_status_that_is_not_positive_is_no_end(answer: int) -> None:
    with pytest.raises(IllegalMove):
        move(a_task(RUNNING), Finished(answer), ONCE, NOW)


def test_a_failed_task_is_tried_again_after_a_pause_until_its_attempts_are_used_up() -> None:
    policy = Policy(attempts=3, backoff_s=10.0)
    task = a_task(RUNNING)
    pauses = []
    for _ in range(2):
        task = move(task, Finished(FAILED, reason="no"), policy, NOW)
        assert (task.status, task.rank, task.last_node, task.node) == (QUEUED, DELAYED, "vm-1", None)
        pauses.append((task.turn >> TURN_BITS) - NOW)
        task = msgspec.structs.replace(move(task, Due(), policy, NOW), status=RUNNING, node="vm-1")
    task = move(task, Finished(FAILED, reason="no"), policy, NOW)

    assert pauses == [10_000, 20_000]
    assert (task.status, task.attempt, task.errors, task.crashes) == (FAILED, 3, 3, 0)


def test_a_task_keeps_its_place_in_the_queue_when_it_comes_back() -> None:
    first, policy = a_task(RUNNING), Policy(attempts=2)
    back = move(move(first, Finished(FAILED), policy, NOW), Due(), policy, NOW + 9_000)

    assert (back.rank, back.turn) == (first.rank, first.turn)


def test_crashes_are_counted_apart_from_errors_and_end_a_task_of_their_own() -> None:
    policy = Policy(attempts=10, crashes=2)
    once = move(a_task(RUNNING), Crashed("died of SIGSEGV"), policy, NOW)
    again = msgspec.structs.replace(once, status=RUNNING, node="vm-2")
    twice = move(again, Crashed("died of SIGSEGV", exit_code=-11), policy, NOW)

    assert (once.status, once.crashes, once.errors) == (QUEUED, 1, 0)
    assert (twice.status, twice.crashes, twice.errors) == (FAILED, 2, 0)
    assert (twice.reason, twice.exit_code) == ("died of SIGSEGV", -11)


def test_a_task_whose_node_is_lost_goes_back_at_once_and_in_the_end_is_an_orphan() -> None:
    policy = Policy(crashes=2)
    once = move(a_task(RUNNING), Crashed("lost", node_lost=True), policy, NOW)
    again = msgspec.structs.replace(once, status=CLAIMED, node="vm-2")
    twice = move(again, Crashed("lost", node_lost=True), policy, NOW)

    assert (once.status, once.rank, once.last_node) == (QUEUED, 0, "vm-1")
    assert twice.status == ORPHANED


def test_a_queue_may_want_orphans_marked() -> None:
    marked = move(a_task(RUNNING), Crashed("lost", node_lost=True), Policy(orphans="mark"), NOW)

    assert marked.status == ORPHANED


def test_what_takes_too_long_is_terminated_once_it_has_no_attempts_left() -> None:
    again = move(a_task(RUNNING), Stopped("ran longer than 5 s"), Policy(attempts=2), NOW)
    ended = move(a_task(RUNNING), Stopped("ran longer than 5 s"), ONCE, NOW)

    assert again.status == QUEUED
    assert (ended.status, ended.reason) == (TERMINATED, "ran longer than 5 s")


@pytest.mark.parametrize("status", [QUEUED, BLOCKED, -17])
def test_a_task_that_waits_is_cancelled_at_once(status: int) -> None:
    assert move(a_task(status), CancelAsked(), ONCE, NOW).status == CANCELLED


@pytest.mark.parametrize(
    "end",
    [Stopped("x"), Stopped("x", cancelled=True), Crashed("x"), Crashed("x", node_lost=True), GivenBack()],
)
def test_a_task_that_runs_is_cancelled_once_its_node_has_ended_it(end: Event) -> None:
    asked = move(a_task(RUNNING), CancelAsked("changed my mind"), Policy(attempts=5), NOW)
    ended = move(asked, end, Policy(attempts=5), NOW)

    assert (asked.status, asked.cancel) == (RUNNING, True)
    assert (ended.status, ended.cancel) == (CANCELLED, False)


def test_a_task_that_ends_before_it_could_be_cancelled_has_ended() -> None:
    asked = move(a_task(RUNNING), CancelAsked(), ONCE, NOW)

    assert move(asked, Finished(SUCCEEDED), ONCE, NOW).status == SUCCEEDED


def test_a_failed_task_whose_cancel_was_asked_is_not_tried_again() -> None:
    asked = move(a_task(RUNNING), CancelAsked(), Policy(attempts=5), NOW)

    assert move(asked, Finished(FAILED), Policy(attempts=5), NOW).status == FAILED


@pytest.mark.parametrize("status", [SUCCEEDED, FAILED, ORPHANED, CANCELLED, TERMINATED, BLOCKED, -40])
def test_what_has_ended_or_is_parked_can_be_queued_again(status: int) -> None:
    before = a_task(status, attempt=3, errors=2, crashes=1, reason="no", stdout="old", result=1)
    after = move(before, RetryAsked(), ONCE, NOW)

    assert (after.status, after.rank, after.errors, after.crashes) == (QUEUED, 0, 0, 0)
    assert (after.attempt, after.stdout, after.result, after.reason) == (3, None, None, None)


def test_a_task_that_a_node_gives_back_counts_for_nothing() -> None:
    back = move(a_task(RUNNING, attempt=1), GivenBack(), ONCE, NOW)

    assert (back.status, back.attempt, back.errors, back.crashes) == (QUEUED, 1, 0, 0)


def test_a_task_that_is_left_to_others_waits_a_moment_and_remembers_how_often() -> None:
    left = move(a_task(CLAIMED, last_node="vm-1"), Left(200), ONCE, NOW)

    assert (left.status, left.rank, left.avoided, left.last_node) == (QUEUED, DELAYED, 1, "vm-1")
    assert move(left, Due(), ONCE, NOW + 200).rank == 0


def test_a_task_for_later_is_delayed_until_it_is_due() -> None:
    task = task_for(Order(queue="work", not_before=9_000), 1_000, 3)

    assert (task.status, task.rank, task.turn >> TURN_BITS, task.not_before) == (
        QUEUED,
        DELAYED,
        9_000,
        9_000,
    )
    due = move(task, Due(), ONCE, 9_000)
    assert (due.rank, due.turn) == (0, (1_000 << TURN_BITS) + 3)


@pytest.mark.parametrize("status", [-7, QUEUED, CLAIMED, RUNNING, SUCCEEDED, FAILED, ORPHANED, CANCELLED, 99])
@pytest.mark.parametrize("event", EVENTS)
def test_every_move_is_made_or_refused_and_leads_to_a_status_that_it_may_lead_to(
    status: int, event: Event
) -> None:
    """What runs is moved by whoever has it, what waits or has ended by others, and nothing by both."""
    holders = isinstance(event, Started | Finished | Crashed | Stopped | GivenBack | Left)
    try:
        after = move(a_task(status, rank=DELAYED), event, ONCE, NOW)
    except IllegalMove:
        assert not holders or not is_live(status) or (isinstance(event, Started) and status == RUNNING)
        return

    assert is_live(status) or not holders
    assert is_live(after.status) <= is_live(status)
    assert (after.ended == NOW) == is_ended(after.status)


def test_what_has_ended_is_ranked_by_its_end_until_it_is_tried_again() -> None:
    done = move(a_task(RUNNING, priority=3), Finished(SUCCEEDED), ONCE, NOW)
    onward = move(a_task(RUNNING), Finished(SUCCEEDED, onward="next"), ONCE, NOW)

    assert (done.rank, move(done, RetryAsked(), ONCE, NOW + 1).rank) == (NOW, -3)
    assert (onward.rank, move(onward, PassedOn("child"), ONCE, NOW + 1).rank) == (ONWARD, NOW)


@given(st.integers(-50, 50))
def test_every_status_is_one_thing_only(status: int) -> None:
    kinds = [status == QUEUED, is_live(status), is_ended(status), is_parked(status)]

    assert sum(kinds) == 1


@given(st.floats(0, 100), st.integers(1, 200), st.floats(0, 1))
def test_a_pause_grows_with_failures_and_stays_within_its_limit(
    base_s: float, failures: int, chance: float
) -> None:
    policy = Policy(backoff_s=base_s, backoff_max_s=100.0)
    pause = backoff_ms(policy, failures, chance)

    assert 0 <= pause <= 100_000 * (1 + JITTER) + 1
    assert backoff_ms(policy, failures + 1, chance) >= pause


def test_a_task_reads_back_as_it_was_written() -> None:
    task = a_task(RUNNING, key="k", batch=4, description="d", attempt=2, progress=None)

    assert task_of(Document("id", body_of(task), 1)) == task
