"""What a node makes of a worker's words, message by message."""

import json
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tidemill.tasks.remote import session as sessions
from tidemill.tasks.remote.session import Close, Effect, Rules, Send, Session
from tidemill.worker import wire
from tidemill.worker.wire import TaskRef

RULES = Rules(grace_s=0.5, ask_s=10.0, old_s=60.0)
A = TaskRef("a", 7)
ASK = Send(wire.StatusAsked())


def opened(*, plain: bool = True) -> Session:
    return Session(plain=plain, opened=0.0)


def said(session: Session, now: float = 1.0, **fields: object) -> tuple[Session, Sequence[Effect]]:
    return sessions.heard(session, json.dumps(fields), now)


def registered(*, plain: bool = True, slots: int = 1) -> Session:
    session, effects = said(opened(plain=plain), code=0, name="n", id="w", token="t", slots=slots)
    assert [type(one) for one in effects] == [sessions.Enrol]
    session, _ = sessions.enrolled(session, "s", (), 100, 0.1)
    return session


def ready(*, plain: bool = True, slots: int = 1) -> Session:
    return said(registered(plain=plain, slots=slots), 0.2, code=1, status=1)[0]


def at_work(*, plain: bool = True) -> Session:
    return sessions.given(ready(plain=plain), A, 1.0, 600.0)


def reason_of(effects: Sequence[Effect]) -> str:
    [effect] = effects
    assert isinstance(effect, Close)
    assert effect.code == sessions.POLICY
    return effect.reason


class TestRegistration:
    def test_its_status_is_asked_for_once_it_is_enrolled(self) -> None:
        session, _ = said(opened(), code=0, name="n", id="w", token="t")
        _, effects = sessions.enrolled(session, "s", (), 100, 0.1)
        assert effects == (ASK,)

    def test_one_that_speaks_v1_is_welcomed_first(self) -> None:
        session, _ = said(opened(plain=False), code=0, name="n", id="w", token="t")
        _, effects = sessions.enrolled(session, "s", (), 100, 0.1)
        assert effects == (Send(wire.Welcome("s", 100)), ASK)

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"session": "s" * 201}, "session must be what the last welcome gave"),
            ({"tasks": [{"task": "", "fence": 1}]}, "tasks must be those that it was given"),
            ({"tasks": [{"task": "a\0", "fence": 1}]}, "tasks must be those that it was given"),
            ({"tasks": [{"task": "a" * 201, "fence": 1}]}, "tasks must be those that it was given"),
        ],
    )
    def test_one_that_brings_what_no_node_can_have_given_it_is_closed(
        self, fields: dict[str, object], reason: str
    ) -> None:
        hello = {"code": 0, "name": "n", "id": "w", "token": "t", **fields}
        _, effects = sessions.heard(opened(plain=False), json.dumps(hello), 1.0)
        assert reason_of(effects) == reason

    def test_who_does_not_register_in_time_is_closed(self) -> None:
        session = opened()
        assert sessions.due(session, RULES) == 0.5
        assert sessions.ticked(session, 0.4, RULES)[1] == ()
        assert "within 0.5 s" in reason_of(sessions.ticked(session, 0.5, RULES)[1])

    def test_who_is_refused_is_closed_at_the_end_of_the_grace_time_and_heard_no_more(self) -> None:
        session, _ = said(opened(), code=0, name="n", id="w", token="bad")
        session = sessions.refused(session, "the token is not known")
        assert said(session, code=1, status=1)[1] == ()
        assert sessions.heard_bytes(session, 1, b"x", 0.2)[1] == ()
        assert sessions.ticked(session, 0.4, RULES)[1] == ()
        assert reason_of(sessions.ticked(session, 0.5, RULES)[1]) == "the token is not known"

    @pytest.mark.parametrize("text", ['{"code":1,"status":1}', '{"code":3,"percent":101}', '{"code":4}'])
    def test_anything_else_first_closes(self, text: str) -> None:
        assert "registration" in reason_of(sessions.heard(opened(), text, 0.1)[1])

    def test_bytes_first_close(self) -> None:
        assert "registration" in reason_of(sessions.heard_bytes(opened(), 1, b"x", 0.1)[1])

    def test_one_that_the_store_says_nothing_of_is_closed_in_the_end(self) -> None:
        session, _ = said(opened(), 0.1, code=0, name="n", id="w", token="t")
        assert sessions.ticked(session, 59.0, RULES)[1] == ()
        [close] = sessions.ticked(session, sessions.due(session, RULES), RULES)[1]
        assert isinstance(close, Close)
        assert close.code == sessions.TROUBLE

    def test_a_second_registration_closes(self) -> None:
        assert reason_of(said(ready(), code=0, name="n", id="w", token="t")[1]) == "registered already"

    @pytest.mark.parametrize(
        "text", ["nonsense", "[]", '{"code":12}', '{"code":1,"status":2}', "{}", "\ud800"]
    )
    def test_what_is_no_message_closes(self, text: str) -> None:
        assert reason_of(sessions.heard(ready(), text, 1.0)[1])

    def test_the_words_of_v1_are_none_of_the_plain_protocol(self) -> None:
        assert reason_of(said(at_work(), code=5, task="a", fence=7, content="")[1])


class TestStatus:
    def test_one_that_is_ready_has_room(self) -> None:
        session, effects = said(registered(), code=1, status=1)
        assert session.room == 1
        assert effects == (sessions.Free(),)

    def test_one_that_is_busy_has_none_and_is_asked_again(self) -> None:
        session, effects = said(registered(), 1.0, code=1, status=0)
        assert session.room == 0
        assert effects == (sessions.Occupied(),)
        assert sessions.due(session, RULES) == 11.0
        assert sessions.ticked(session, 11.0, RULES)[1] == (ASK,)

    def test_one_that_does_not_answer_is_asked_again(self) -> None:
        session = registered()
        assert sessions.due(session, RULES) == pytest.approx(10.1)
        session, effects = sessions.ticked(session, 10.1, RULES)
        assert effects == (ASK,)
        assert sessions.due(session, RULES) == pytest.approx(20.1)

    def test_what_is_old_is_asked_for_again(self) -> None:
        assert sessions.ticked(ready(), 60.2, RULES)[1] == (ASK,)

    def test_one_that_says_it_has_no_job_when_asked_has_lost_it(self) -> None:
        session, _ = sessions.ticked(at_work(), 100.0, RULES)
        session, effects = said(session, 101.0, code=1, status=1)
        assert [type(one) for one in effects] == [sessions.Lapsed, sessions.Free]
        assert session.tasks == ()

    def test_one_that_was_not_sent_all_of_it_yet_has_lost_nothing(self) -> None:
        session = sessions.given(ready(), A, 1.0, 600.0, whole=False)
        session, asked = sessions.ticked(session, 20.0, RULES)
        session, effects = said(session, 21.0, code=1, status=1)
        assert (asked, effects, session.room) == ((ASK,), (), 0)
        session, _ = sessions.ticked(sessions.sent(session, A, 30.0), 50.0, RULES)
        _, effects = said(session, 51.0, code=1, status=1)
        assert [type(one) for one in effects] == [sessions.Lapsed, sessions.Free]

    def test_one_whose_word_crossed_the_payload_has_not(self) -> None:
        session, effects = said(at_work(), 1.1, code=1, status=1)
        assert effects == ()
        assert session.tasks != ()


class TestResults:
    def test_bytes_are_the_result_of_the_last_job_and_then_its_status_is_asked_for(self) -> None:
        session, effects = sessions.heard_bytes(at_work(), 3, b"abc", 2.0)
        assert effects == (sessions.Succeeded(A, b"abc"), ASK)
        assert (session.tasks, session.room) == ((), 0)

    def test_a_second_result_is_dropped(self) -> None:
        session, _ = sessions.heard_bytes(at_work(), 3, b"abc", 2.0)
        _, effects = sessions.heard_bytes(session, 3, b"abc", 2.0)
        assert [type(one) for one in effects] == [sessions.Dropped]

    def test_bytes_before_any_job_close(self) -> None:
        assert "no job" in reason_of(sessions.heard_bytes(ready(), 3, b"abc", 2.0)[1])

    def test_a_failure_is_told_with_its_words_and_then_its_status_is_asked_for(self) -> None:
        session, effects = said(at_work(), code=4, info="no", logs="long")
        assert effects == (sessions.Failure(A, "no", "long"), ASK)
        assert session.tasks == ()

    def test_a_failure_of_nothing_is_dropped(self) -> None:
        assert [type(one) for one in said(ready(), code=4)[1]] == [sessions.Dropped]

    def test_what_nobody_wants_any_more_is_dropped_and_its_worker_asked(self) -> None:
        session, effects = sessions.withdrawn(at_work(), A, "cancelled", 2.0)
        assert effects == ()
        assert session.room == 0
        session, effects = sessions.heard_bytes(session, 3, b"abc", 2.0)
        assert [type(one) for one in effects] == [sessions.Dropped, Send]

    def test_v1_is_told_of_a_cancel_and_has_room_again(self) -> None:
        session, effects = sessions.withdrawn(at_work(plain=False), A, "cancelled", 2.0)
        assert effects == (Send(wire.Cancelled("a", 7, "cancelled")), sessions.Free())
        assert session.room == 1

    def test_v1_has_several_and_names_the_one_that_it_means(self) -> None:
        session = ready(plain=False, slots=2)
        session = sessions.given(sessions.given(session, A, 1.0, None), TaskRef("b", 8), 1.0, None)
        assert session.room == 0
        session, effects = said(session, code=5, task="b", fence=8, content=wire.inline(b"x"))
        assert effects == (sessions.Succeeded(TaskRef("b", 8), b"x"), sessions.Free())
        assert [one.ref for one in session.tasks] == [A]


class TestProgress:
    @pytest.mark.parametrize(("percent", "info"), [(0, None), (100.0, "done"), (None, "words")])
    def test_it_is_told(self, percent: float | None, info: str | None) -> None:
        _, effects = said(at_work(), code=3, percent=percent, info=info)
        assert effects == (sessions.Progressed(A, percent, info),)

    @pytest.mark.parametrize("percent", [101, -0.1, "ten", None])
    def test_what_cannot_be_is_dropped_and_closes_nothing(self, percent: object) -> None:
        _, effects = said(at_work(), code=3, percent=percent, info=None)
        assert [type(one) for one in effects] == [sessions.Dropped]

    def test_it_is_dropped_without_a_job(self) -> None:
        assert [type(one) for one in said(ready(), code=3, percent=1)[1]] == [sessions.Dropped]

    def test_it_is_a_sign_of_life(self) -> None:
        session, _ = said(at_work(), 500.0, code=3, percent=1)
        assert session.tasks[0].sign == 500.0


class TestStuck:
    def test_silence_for_too_long_is_told(self) -> None:
        session = replace(at_work(), spoke=600.0)
        effects = sessions.ticked(session, 601.0, RULES)[1]
        assert effects == [sessions.Stuck(A, 600.0)]

    def test_an_answer_that_it_is_busy_is_a_sign(self) -> None:
        session, _ = said(at_work(), 500.0, code=1, status=0)
        assert not [
            one for one in sessions.ticked(session, 601.0, RULES)[1] if isinstance(one, sessions.Stuck)
        ]

    def test_one_that_is_at_work_is_asked_well_before_that(self) -> None:
        session = sessions.given(ready(), A, 1.0, 3.0)
        assert sessions.due(session, RULES) == 2.0
        session, effects = sessions.ticked(session, 2.0, RULES)
        assert effects == (ASK,)
        session, _ = said(session, 2.1, code=1, status=0)
        assert not [one for one in sessions.ticked(session, 4.5, RULES)[1] if isinstance(one, sessions.Stuck)]
