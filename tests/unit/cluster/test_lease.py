from tidemill.cluster.lease import Timing, granted
from tidemill.store import Lease

TIMING = Timing(5.0)


def lease(holder: str | None, expire: int = 6000, now: int = 1000) -> Lease:
    return Lease("leader", holder, 7, expire, now)


def test_a_lease_is_trusted_from_the_sending_of_the_request() -> None:
    grant = granted(lease("me"), "me", 100.0, TIMING)

    assert grant is not None
    assert grant.term == 7
    assert grant.trusted_until == 104.0


def test_a_grant_ends_at_its_deadline() -> None:
    grant = granted(lease("me"), "me", 100.0, TIMING)

    assert grant is not None
    assert grant.trusted(103.999)
    assert not grant.trusted(104.0)


def test_a_clock_that_runs_a_fifth_slow_still_stops_in_time() -> None:
    slow_second = 0.8

    assert TIMING.trust_s / slow_second <= TIMING.ttl_s


def test_what_another_holds_or_has_expired_grants_nothing() -> None:
    assert granted(lease("you"), "me", 100.0, TIMING) is None
    assert granted(lease(None), "me", 100.0, TIMING) is None
    assert granted(lease("me", expire=1000), "me", 100.0, TIMING) is None
    assert granted(None, "me", 100.0, TIMING) is None


def test_three_renewals_may_fail_before_a_lease_is_lost() -> None:
    assert 3 * TIMING.beat_s + TIMING.retry_s <= TIMING.trust_s
