from msgspec.structs import replace

from tidemill.cluster.lease import Timing
from tidemill.cluster.standing import Enrolled, Gained, Lost, Moved, Standing, lapse, next_beat, observe
from tidemill.store import Lease

TIMING = Timing(5.0)
NEW = Standing("me", "node:me", "leader")


def answer(leader: str | None, term: int = 3, *, expire: int = 6000) -> dict[str, Lease]:
    return {
        "node:me": Lease("node:me", "me", 2, 6000, 1000),
        "leader": Lease("leader", leader, term, expire, 1000),
    }


def leading(term: int = 3) -> Standing:
    return observe(NEW, answer("me", term), 10.0, 10.1, TIMING)[0]


def test_the_first_beat_enrolls_and_may_win() -> None:
    after, events = observe(NEW, answer("me"), 10.0, 10.1, TIMING)

    assert after.leadership is not None
    assert [type(event) for event in events] == [Gained, Moved, Enrolled]


def test_a_follower_learns_who_leads_and_until_when() -> None:
    after, events = observe(NEW, answer("you"), 10.0, 10.1, TIMING)

    assert after.leadership is None
    assert (after.leader, after.term) == ("you", 3)
    assert after.leader_until == 10.1 + 5.0
    assert Moved("you", 3) in events


def test_a_renewal_changes_nothing_but_the_deadline() -> None:
    after, events = observe(leading(), answer("me"), 11.0, 11.1, TIMING)

    assert events == []
    assert after.leadership is not None
    assert after.leadership.trusted_until == 15.0


def test_another_holder_means_lost() -> None:
    after, events = observe(leading(), answer("you", 4), 11.0, 11.1, TIMING)

    assert after.leadership is None
    assert events[0] == Lost(3)


def test_a_new_term_of_ones_own_is_lost_and_gained() -> None:
    _, events = observe(leading(), answer("me", 9), 11.0, 11.1, TIMING)

    assert events[0] == Lost(3)
    assert isinstance(events[1], Gained)


def test_time_alone_takes_the_lead_away() -> None:
    still, events = lapse(leading(), 13.99)
    assert still.leadership is not None
    assert events == []

    gone, events = lapse(leading(), 14.0)
    assert gone.leadership is None
    assert events == [Lost(3)]


def test_an_answer_that_comes_too_late_grants_nothing() -> None:
    after, events = observe(NEW, answer("me"), 10.0, 14.5, TIMING)

    assert after.leadership is None
    assert not any(isinstance(event, Gained) for event in events)


def test_an_expired_leader_is_no_leader() -> None:
    after, _ = observe(NEW, answer("you", expire=500), 10.0, 10.1, TIMING)

    assert after.leader is None


def test_a_follower_asks_at_the_renewal_while_the_leader_lives() -> None:
    follower, _ = observe(NEW, answer("you"), 10.0, 10.1, TIMING)

    assert next_beat(follower, 10.1, 0.5, TIMING) == TIMING.beat_s


def test_a_follower_asks_when_the_leaders_lease_runs_out_and_not_before() -> None:
    follower = replace(leading(), leadership=None, leader="you", leader_until=20.0)

    assert next_beat(follower, 19.5, 0.0, TIMING) == 0.5
    assert next_beat(follower, 19.5, 1.0, TIMING) == 0.5 + TIMING.spread_s
    assert next_beat(follower, 21.0, 0.0, TIMING) == 0.0
