"""Each check finds what it is there for: histories that are right, with one thing wrong."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from chaos import checks
from chaos.recorder import Change, Facts
from chaos.words import LEASE, PARTITION_LEASE

TTL, PARTITION_TTL = LEASE.ttl_ms, PARTITION_LEASE.ttl_ms


class History:
    """Changes as a database would record them, at instants that are given."""

    def __init__(self, *, clock: bool) -> None:
        self.changes: list[Change] = []
        self._clock = clock
        self._there: dict[tuple[str, str], Facts] = {}

    def put(self, at: int, collection: str, key: str, facts: Facts | None, **body: Any) -> "History":
        before = self._there.get((collection, key))
        told = at if self._clock else None
        number = len(self.changes) + 1
        self.changes.append(Change(number, told, collection, key, before, facts, body))
        if facts is None:
            del self._there[collection, key]
        else:
            self._there[collection, key] = facts
        return self

    def lease(self, at: int, holder: str, term: int) -> "History":
        return self.put(at, "leases", "leader", Facts(1, term, holder, at + TTL))

    def entry(self, at: int, term: int, key: str = "e", **facts: Any) -> "History":
        fence = ["leases", "leader", term]
        return self.put(at, "chaos_entries", key, Facts(1, 0, None, 0), fence=fence, **facts)

    def partition(self, at: int, key: str, term: int, state: str, expire: int | None = None) -> "History":
        until = at + PARTITION_TTL if expire is None else expire
        return self.put(at, "partitions", key, Facts(1, term, f"holder {term}", until, state))


@pytest.fixture(params=[True, False], ids=["with the database's clock", "without"])
def history(request: pytest.FixtureRequest) -> History:
    return History(clock=request.param)


def wrong(check: Callable[[Sequence[Change]], Iterator[str]], history: History) -> list[str]:
    return list(check(history.changes))


def test_a_lease_may_change_hands_once_it_has_run_out_or_was_let_go_of(history: History) -> None:
    history.lease(0, "one", 1).lease(1000, "one", 1).lease(1000 + TTL, "two", 2)
    history.put(4000, "leases", "leader", Facts(1, 2, "two", 0)).lease(4001, "three", 3)
    assert not wrong(checks.one_holder_at_a_time, history)


@pytest.mark.parametrize(
    ("holder", "term", "at"),
    [("two", 2, TTL - 1), ("two", 1, TTL + 1), ("one", 0, TTL + 1)],
    ids=["before it ran out", "under the same term", "under an older term"],
)
def test_a_lease_that_changes_hands_otherwise_is_found(
    history: History, holder: str, term: int, at: int
) -> None:
    history.lease(0, "one", 1).lease(at, holder, term)
    assert wrong(checks.one_holder_at_a_time, history)


def test_a_write_under_the_term_of_the_moment_is_right(history: History) -> None:
    history.lease(0, "one", 1).entry(1, 1).lease(TTL, "two", 2).entry(TTL + 1, 2)
    assert not wrong(checks.no_stale_write, history)


def test_a_write_under_a_passed_term_is_found(history: History) -> None:
    history.lease(0, "one", 1).lease(TTL, "two", 2).entry(TTL + 1, 1)
    assert wrong(checks.no_stale_write, history)


def test_a_write_after_the_lease_was_let_go_of_is_found(history: History) -> None:
    history.lease(0, "one", 1).put(5, "leases", "leader", Facts(1, 1, "one", 0)).entry(6, 1)
    assert wrong(checks.no_stale_write, history)


def done(history: History, name: str, term: int) -> History:
    history.partition(0, f"tasks/{name}", 0, "outstanding", 0)
    history.partition(1, f"tasks/{name}", term, "outstanding")
    history.put(2, "chaos_effects", name, Facts(1, 0, None, 0), fence=["partitions", f"tasks/{name}", term])
    return history.partition(3, f"tasks/{name}", term, "done", 0)


def test_tasks_that_are_each_done_once_are_right(history: History) -> None:
    done(done(history, "000000", 1), "000001", 2)
    assert not wrong(checks.done_once, history)
    assert not list(checks.everything_done(history.changes, 2))
    assert not wrong(checks.no_stale_write, history)


def test_a_task_that_is_not_done_is_found(history: History) -> None:
    assert len(list(checks.everything_done(done(history, "000000", 1).changes, 2))) == 2


def test_a_task_that_is_made_again_is_found(history: History) -> None:
    done(history, "000000", 1).put(4, "partitions", "tasks/000000", None)
    assert not wrong(checks.done_once, history)
    assert wrong(checks.done_once, done(history, "000000", 5))


def test_a_task_that_is_done_by_one_who_let_go_of_it_is_found(history: History) -> None:
    history.partition(0, "tasks/000000", 1, "outstanding", 0).partition(1, "tasks/000000", 1, "done", 0)
    assert wrong(checks.done_once, history)


def test_a_shard_of_an_earlier_generation_is_found(history: History) -> None:
    history.lease(0, "one", 1)
    history.entry(1, 1, "a", kind="shard", generation=1).entry(2, 1, "b", kind="shard", generation=2)
    assert not wrong(checks.one_generation_at_a_time, history)
    assert wrong(checks.one_generation_at_a_time, history.entry(3, 1, "c", kind="shard", generation=1))


def test_an_acknowledged_write_that_is_not_there_is_found(history: History) -> None:
    history.lease(0, "one", 1).entry(1, 1, "kept")
    said = [{"event": "wrote", "key": "kept"}, {"event": "wrote", "key": "gone"}]
    assert len(list(checks.nothing_acknowledged_is_lost(history.changes, said))) == 1


def held(moment: float, term: int) -> dict[str, Any]:
    return {"event": "held", "what": ["locks", "ledger"], "moment": moment, "term": term}


def test_a_belief_that_outlasts_the_next_ones_begin_is_found() -> None:
    assert not list(checks.beliefs_do_not_overlap([held(1.0, 1), held(2.0, 1), held(3.0, 2)]))
    assert list(checks.beliefs_do_not_overlap([held(1.0, 1), held(2.5, 1), held(2.0, 2)]))


def test_a_slot_too_many_is_found(history: History) -> None:
    history.put(0, "semaphores", "pool:slot:1", Facts(1, 1, "one", TTL))
    assert not wrong(checks.slots_are_there, history)
    history.put(0, "semaphores", "pool:slot:2", Facts(1, 2, "two", TTL))
    assert wrong(checks.slots_are_there, history)
