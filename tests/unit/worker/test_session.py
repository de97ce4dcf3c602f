"""A worker's connection, event by event."""

from pathlib import Path

import pytest

from tidemill.worker import wire
from tidemill.worker.session import (
    Begin,
    Cancel,
    Check,
    Connected,
    Deliver,
    Effect,
    Ended,
    Event,
    Failure,
    Forget,
    Heard,
    HeardChunk,
    HeardPayload,
    Line,
    Lost,
    Produced,
    Reported,
    Send,
    Sent,
    State,
    Stopping,
    Write,
    step,
)
from tidemill.worker.wire import TaskRef

ONE, TWO, THREE = TaskRef("one", 7), TaskRef("two", 8), TaskRef("three", 9)
READY, BUSY = Send(wire.Status(wire.READY)), Send(wire.Status(wire.BUSY))
DONE = Produced(b"done", 4)


class Play:
    """A session that is told of events, one after the other."""

    def __init__(self, slots: int = 1, *, plain: bool = False) -> None:
        self.state = State(wire.Registered("vm", "vm-1", "secret", slots), "shout", plain)

    def __call__(self, *events: Event) -> list[Effect]:
        """What is to be done about the last."""
        effects: list[Effect] = []
        for event in events:
            self.state, effects = step(self.state, event)
        return effects

    def says(self, *messages: wire.FromNode) -> list[Effect]:
        return self(*(Heard(message) for message in messages))

    def welcome(self, *kept: TaskRef, session: str = "s-1") -> list[Effect]:
        return self(Connected(), Heard(wire.Welcome(session, 1000, kept)))


def given(ref: TaskRef, **content: object) -> wire.TaskGiven:
    fields = content or {"content": ""}
    return wire.TaskGiven(ref.task, ref.fence, 1, "shout", **fields)  # type: ignore[arg-type]


def result(ref: TaskRef, content: bytes = b"done") -> Send:
    return Send(wire.Result(ref.task, ref.fence, content=wire.inline(content)))


def settled(ref: TaskRef, *, accepted: bool = True) -> wire.Settled:
    return wire.Settled(ref.task, ref.fence, accepted)


def cancelled(ref: TaskRef) -> wire.Cancelled:
    return wire.Cancelled(ref.task, ref.fence, "not wanted")


@pytest.fixture
def play() -> Play:
    """A session that was welcomed, of a worker with one slot."""
    play = Play()
    play.welcome()
    return play


def test_a_worker_registers_as_soon_as_it_is_connected() -> None:
    play = Play(slots=3)

    assert play(Connected()) == [Send(wire.Registered("vm", "vm-1", "secret", 3))]
    assert play.state.line is Line.GREETING


def test_a_welcomed_worker_says_that_it_is_ready_when_asked(play: Play) -> None:
    assert play.state.line is Line.UP
    assert play.says(wire.StatusAsked()) == [READY]


def test_a_task_begins_at_once_and_its_result_is_kept_until_it_is_settled(play: Play) -> None:
    assert play.says(given(ONE)) == [Begin(ONE, given(ONE))]
    assert play(Ended(ONE, DONE)) == [result(ONE)]
    assert ONE in play.state.works

    assert play.says(settled(ONE)) == [Forget(ONE)]
    assert play.state.works == {}


def test_a_result_that_nobody_wants_is_forgotten_too(play: Play) -> None:
    play.says(given(ONE))
    play(Ended(ONE, DONE))

    assert play.says(settled(ONE, accepted=False)) == [Forget(ONE)]


def test_a_failure_names_its_task_and_is_kept_like_a_result(play: Play) -> None:
    play.says(given(ONE))
    failed = Send(wire.Failed("trace", "no luck", "one", 7))

    assert play(Ended(ONE, Failure("no luck", "trace"))) == [failed]
    play(Lost())
    assert play.welcome() == [failed]
    assert play.says(settled(ONE)) == [Forget(ONE)]


def test_progress_names_its_task_and_counts_only_while_that_runs(play: Play) -> None:
    play.says(given(ONE))

    assert play(Reported(ONE, 40.0, "words")) == [Send(wire.Progress(40.0, "words", "one", 7))]
    assert play(Reported(TWO, 40.0)) == []
    play(Ended(ONE, DONE))
    assert play(Reported(ONE, 90.0)) == []


def test_a_full_worker_is_busy_and_says_by_itself_when_it_is_ready_again(play: Play) -> None:
    play.says(given(ONE))

    assert play.says(wire.StatusAsked()) == [BUSY]
    assert play(Ended(ONE, DONE)) == [result(ONE), READY]
    assert play.says(settled(ONE)) == [Forget(ONE)]


def test_a_worker_with_room_is_ready_while_it_works() -> None:
    play = Play(slots=2)
    play.welcome()
    play.says(given(ONE))

    assert play.says(wire.StatusAsked()) == [READY]


def test_what_is_given_beyond_the_slots_waits_for_its_turn(play: Play) -> None:
    play.says(given(ONE))

    assert play.says(given(TWO)) == []
    assert play(Ended(ONE, DONE)) == [result(ONE), Begin(TWO, given(TWO))]


def test_the_slot_of_a_cancelled_task_is_free_once_its_handler_is_out(play: Play) -> None:
    play.says(given(ONE))

    assert play.says(cancelled(ONE)) == [Cancel(ONE)]
    assert play.says(given(TWO)) == []
    assert play(Ended(ONE, DONE)) == [Forget(ONE), Begin(TWO, given(TWO))]


def test_a_task_that_is_cancelled_after_its_end_or_before_its_beginning_is_forgotten(play: Play) -> None:
    play.says(given(ONE), given(TWO))

    assert play.says(cancelled(TWO)) == [Forget(TWO)]
    play(Ended(ONE, DONE))
    assert play.says(cancelled(ONE)) == [Forget(ONE)]
    assert play.says(cancelled(THREE)) == []


def test_a_payload_that_comes_in_pieces_is_checked_before_its_task_begins(play: Play) -> None:
    task = given(ONE, stream=5, size=6)
    assert play.says(task) == []
    assert play(HeardChunk(5, b"abc")) == [Write(ONE, b"abc")]
    assert play(HeardChunk(6, b"???")) == []

    assert play.says(wire.StreamEnded(5, "digest")) == [Check(ONE, 6, "digest"), Begin(ONE, task)]
    assert play(HeardChunk(5, b"more")) == []


def test_pieces_for_a_task_that_was_cancelled_meanwhile_are_passed_over(play: Play) -> None:
    play.says(given(ONE, stream=5, size=6))

    assert play.says(cancelled(ONE)) == [Forget(ONE)]
    assert play(HeardChunk(5, b"abc")) == []
    assert play.says(wire.StreamEnded(5, "digest")) == []


def test_a_result_that_fits_no_message_becomes_a_stream_with_a_number_of_its_own(play: Play) -> None:
    large, file = Produced(bytes(40_000), 40_000), Produced(Path("result"), 70_000)
    play.says(given(ONE))
    first = play(Ended(ONE, large))
    play.says(given(TWO))
    second = play(Ended(TWO, file))

    assert first == [Deliver(ONE, large.content, wire.Result("one", 7, stream=1, size=40_000))]
    assert second == [Deliver(TWO, Path("result"), wire.Result("two", 8, stream=2, size=70_000))]


def test_a_worker_that_comes_back_shows_its_session_and_its_tasks() -> None:
    play = Play(slots=2)
    play.welcome()
    play.says(given(ONE), given(TWO), given(THREE))
    play(Ended(ONE, DONE), Lost())

    assert play(Connected()) == [
        Send(wire.Registered("vm", "vm-1", "secret", 2, session="s-1", tasks=(ONE, TWO, THREE)))
    ]
    assert play.says(wire.Welcome("s-2", 1000, (TWO, THREE))) == [result(ONE)]
    play(Lost())
    assert play(Connected()) == [
        Send(wire.Registered("vm", "vm-1", "secret", 2, session="s-2", tasks=(ONE, TWO, THREE)))
    ]


def test_what_is_not_kept_is_dropped_unless_it_has_ended() -> None:
    play = Play(slots=2)
    play.welcome()
    play.says(given(ONE), given(TWO), given(THREE))
    play(Lost(), Ended(ONE, DONE))

    assert play.welcome() == [Cancel(TWO), Cancel(THREE), result(ONE)]
    assert play(Lost(), Connected()) == [
        Send(wire.Registered("vm", "vm-1", "secret", 2, session="s-1", tasks=(ONE,)))
    ]


def test_a_node_that_takes_over_gives_a_kept_task_a_fence_of_its_own() -> None:
    play = Play(slots=2)
    play.welcome()
    play.says(given(ONE), given(TWO))
    play(Ended(TWO, DONE), Lost())
    one, two = TaskRef("one", 20), TaskRef("two", 21)

    assert play.welcome(one, two) == [result(two)]
    assert play(Reported(ONE, 50.0)) == [Send(wire.Progress(50.0, None, "one", 20))]
    assert play(Lost(), Connected()) == [
        Send(wire.Registered("vm", "vm-1", "secret", 2, session="s-1", tasks=(one, two)))
    ]
    play.says(wire.Welcome("s-1", 1000, (one, two)))
    assert play(Ended(ONE, DONE)) == [result(one)]
    assert play.says(settled(ONE)) == []
    assert play.says(settled(one), settled(two)) == [Forget(TWO)]
    assert play.state.works == {}


def test_of_two_attempts_at_a_task_the_last_is_kept() -> None:
    play = Play(slots=2)
    play.welcome()
    later = TaskRef("one", 9)
    play.says(given(ONE), given(later))
    play(Lost())

    assert play.welcome(TaskRef("one", 20)) == [Cancel(ONE)]
    assert play(Ended(later, DONE)) == [result(TaskRef("one", 20))]


def test_a_waiting_task_that_is_not_kept_never_begins(play: Play) -> None:
    play.says(given(ONE), given(TWO))
    play(Lost())

    assert play.welcome(ONE) == [Forget(TWO)]
    assert play(Ended(ONE, DONE)) == [result(ONE)]


def test_what_ends_while_the_line_is_down_or_greeting_is_sent_after_the_welcome() -> None:
    play = Play(slots=2)
    play.welcome()
    play.says(given(ONE), given(TWO))

    assert play(Lost(), Ended(ONE, DONE)) == []
    assert play(Connected(), Ended(TWO, DONE)) == []
    assert play.says(wire.Welcome("s-1", 1000)) == [result(ONE), result(TWO)]


def test_a_payload_under_way_goes_with_its_connection(play: Play) -> None:
    play.says(given(ONE, stream=1, size=6))

    assert play(Lost()) == [Forget(ONE)]
    play.welcome()
    assert play(HeardChunk(1, b"abc")) == []
    assert play.says(given(ONE)) == [Begin(ONE, given(ONE))]


def test_a_task_that_is_given_twice_runs_once_and_its_result_is_sent_again(play: Play) -> None:
    play.says(given(ONE))

    assert play.says(given(ONE)) == []
    play(Ended(ONE, DONE))
    assert play.says(given(ONE)) == [result(ONE)]


def test_a_result_that_proves_unreadable_is_replaced_by_a_failure(play: Play) -> None:
    play.says(given(ONE))
    play(Ended(ONE, Produced(Path("gone"), 70_000)))

    assert play(Ended(ONE, Failure("gone"))) == [Send(wire.Failed(None, "gone", "one", 7))]


def test_a_worker_that_is_to_stop_says_busy_and_finishes_what_it_has(play: Play) -> None:
    play.says(given(ONE))

    assert play(Stopping()) == [BUSY]
    assert not play.state.finished
    assert play(Ended(ONE, DONE)) == [result(ONE)]
    assert play.says(wire.StatusAsked()) == [BUSY]
    assert not play.state.finished
    play.says(settled(ONE))
    assert play.state.finished


def test_a_stopping_worker_that_loses_its_connection_comes_back_with_its_results(play: Play) -> None:
    play.says(given(ONE))
    play(Stopping(), Lost(), Ended(ONE, DONE))
    assert not play.state.finished

    assert play.welcome() == [result(ONE), BUSY]
    play.says(settled(ONE))
    assert play.state.finished


def test_a_stopping_worker_does_not_wait_for_what_was_cancelled(play: Play) -> None:
    play.says(given(ONE), cancelled(ONE))
    play(Stopping())

    assert play.state.finished


def test_a_plain_worker_answers_one_job_with_bytes_and_is_then_asked() -> None:
    play = Play(plain=True)
    assert play(Connected()) == [Send(wire.Registered("vm", "vm-1", "secret"))]
    assert play.says(wire.StatusAsked()) == [READY]
    ref = TaskRef("job-1", 0)

    written, begun = play(HeardPayload(b"text"))
    assert written == Write(ref, b"text")
    assert isinstance(begun, Begin)
    assert (begun.given.queue, begun.given.content) == ("shout", None)
    assert play(Reported(ref, None, "words")) == [Send(wire.Progress(None, "words"))]
    assert play.says(wire.StatusAsked()) == [BUSY]
    assert play(Ended(ref, DONE)) == [Deliver(ref, b"done"), READY]
    assert play(Sent(ref)) == [Forget(ref)]


def test_a_plain_failure_is_said_once() -> None:
    play = Play(plain=True)
    play(Connected(), Heard(wire.StatusAsked()), HeardPayload(b"text"))
    ref = TaskRef("job-1", 0)

    assert play(Ended(ref, Failure("no luck"))) == [Send(wire.Failed(None, "no luck")), Forget(ref)]
    assert play.state.works == {}


def test_a_plain_job_is_dropped_with_its_connection_and_holds_its_slot_until_it_is_out() -> None:
    play = Play(plain=True)
    play(Connected(), Heard(wire.StatusAsked()), HeardPayload(b"text"))
    ref = TaskRef("job-1", 0)

    assert play(Lost()) == [Cancel(ref)]
    assert play(Connected(), Heard(wire.StatusAsked())) == [BUSY]
    assert play(Ended(ref, DONE)) == [Forget(ref), READY]


def test_a_plain_worker_passes_over_what_it_does_not_know() -> None:
    play = Play(plain=True)
    play(Connected(), Heard(wire.StatusAsked()))

    assert play.says(given(ONE)) == []
    assert play.says(wire.Welcome("s-1", 1000)) == []


def test_a_task_that_is_given_again_while_its_result_is_unsettled_is_not_computed_again(play: Play) -> None:
    anew = TaskRef("one", 12)
    play.says(given(ONE))
    play(Ended(ONE, DONE), Lost())
    play.welcome()

    assert result(anew) in play.says(given(anew))
    assert Forget(ONE) in play.says(settled(anew))
