import copy
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import tidemill
from tidemill.api.asking import ask
from tidemill.base.bridge import LoopThread
from tidemill.cluster import SEMAPHORES
from tidemill.store import Fenced, Store, open_store


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def wait_for(true: Callable[[], bool]) -> None:
    while not true():
        time.sleep(0.01)


def expiry(url: str, key: str) -> int:
    """Until when a slot is held, as the store has it."""

    async def read(store: Store) -> int:
        found = await store.get(SEMAPHORES, key)
        assert found is not None
        return found.expire

    return ask(url, read)


def gpu(url: str, slots: int = 2, ttl_s: float = 5.0) -> tidemill.Semaphore:
    return tidemill.Semaphore(url, "gpu", slots=slots, ttl_s=ttl_s)


def test_as_many_hold_as_there_are_slots_and_the_next_waits_for_a_release(url: str) -> None:
    last = gpu(url)
    with gpu(url) as one, gpu(url) as two:
        assert {one.slot, two.slot} == {0, 1}
        assert not last.acquire(blocking=False)
        waiting = in_thread(last.acquire)
        wait_for(lambda: last.usage().waiting == 1)
        one.release()
        waiting.join(20)

        assert last.held
        assert last.usage() == type(last.usage())(slots=2, held=(0, 1), waiting=0)
    last.release()


def test_a_slots_fence_grows_from_holder_to_holder(url: str) -> None:
    with gpu(url, 1) as semaphore:
        first = semaphore.fence
    with gpu(url, 1) as semaphore:
        assert semaphore.fence > first


def test_waiting_ends_with_its_timeout_and_leaves_no_place_in_line(url: str) -> None:
    with gpu(url, 1) as semaphore:
        assert not gpu(url, 1).acquire(timeout_s=0.3)
        assert semaphore.usage().waiting == 0


def test_a_slot_is_renewed_while_it_is_held(url: str) -> None:
    """So long a lease that it is not lost on a machine that has much else to do."""
    with gpu(url, 1, ttl_s=4) as semaphore:
        guard, first = semaphore.guard(), expiry(url, semaphore.guard().key)
        wait_for(lambda: expiry(url, guard.key) > first)
        assert not gpu(url, 1).acquire(blocking=False)
        assert semaphore.fence == guard.term


def test_a_semaphore_that_is_not_held_gives_neither_slot_nor_fence(url: str) -> None:
    semaphore = gpu(url)

    assert not semaphore.held
    with pytest.raises(tidemill.LeaseLost):
        _ = semaphore.fence
    with pytest.raises(tidemill.LeaseLost):
        _ = semaphore.slot


def test_a_holder_that_was_robbed_knows_it_and_is_fenced(url: str) -> None:
    with gpu(url, 1, ttl_s=2) as semaphore, LoopThread() as loop:
        guard = semaphore.guard()

        async def rob() -> None:
            async with open_store(url) as store:
                await store.release(SEMAPHORES, {guard.key: guard.term})
                await store.hold(SEMAPHORES, [guard.key], "robber", 60_000)

        loop.run(rob())
        assert semaphore.wait_lost(20)
        assert not semaphore.held

        async def write() -> None:
            async with open_store(url) as store:
                await store.create(SEMAPHORES, "guarded", {}, fence=guard)

        with pytest.raises(Fenced):
            loop.run(write())


def test_the_number_of_slots_can_be_changed_for_all(url: str) -> None:
    with gpu(url, 1) as one:
        one.resize(2)
        with gpu(url, 1) as two:
            one.resize(1)
            assert two.held
            assert one.usage().held == (0, 1)
            assert not gpu(url, 2).acquire(blocking=False)
        assert not gpu(url, 2).acquire(blocking=False)


def test_before_its_first_use_a_semaphore_has_no_slots(url: str) -> None:
    usage = gpu(url).usage()

    assert (usage.slots, usage.held, usage.waiting) == (0, (), 0)


@pytest.mark.parametrize("slots", [0, -1, 1001])
def test_a_number_of_slots_out_of_bounds_is_refused(url: str, slots: int) -> None:
    with pytest.raises(ValueError, match="slots"):
        gpu(url, slots)
    with pytest.raises(ValueError, match="slots"):
        gpu(url).resize(slots)


def test_a_name_that_is_too_long_for_a_key_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="name"):
        tidemill.Semaphore(url, "ü" * 100, slots=1)


def test_a_semaphore_in_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="memory"):
        gpu("memory:")


@pytest.mark.parametrize(
    "make", [lambda url: tidemill.Lock(url, "gpu"), lambda url: gpu(url, 1)], ids=["lock", "semaphore"]
)
def test_what_comes_out_of_a_pickle_is_one_more_who_wants_it(
    url: str, make: Callable[[str], tidemill.Lock | tidemill.Semaphore]
) -> None:
    with make(url) as held:
        for other in (pickle.loads(pickle.dumps(held)), copy.copy(held)):
            assert not other.held
            assert not other.acquire(blocking=False)
            other.release()
        assert held.held
    with other:
        assert other.held


def test_a_semaphore_can_be_sent_to_another_process(url: str) -> None:
    code = "import pickle, sys\nwith pickle.load(sys.stdin.buffer) as sent: print(sent.held, sent.slot)"
    with gpu(url) as semaphore:
        sent = pickle.dumps(semaphore)
        said = subprocess.run([sys.executable, "-c", code], input=sent, stdout=subprocess.PIPE, check=True)

        assert said.stdout.split() == [b"True", b"1" if semaphore.slot == 0 else b"0"]


def test_a_relative_path_names_the_same_store_wherever_it_lands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with gpu("sqlite:///store.db", 1) as semaphore:
        sent = pickle.dumps(semaphore)
        (tmp_path / "elsewhere").mkdir()
        os.chdir(tmp_path / "elsewhere")

        assert not pickle.loads(sent).acquire(blocking=False)


def test_a_process_that_exits_lets_go_of_its_slot(url: str) -> None:
    code = f"import tidemill; s = tidemill.Semaphore({url!r}, 'gpu', slots=1, ttl_s=60); s.acquire()"
    subprocess.run([sys.executable, "-c", code], check=True)

    assert gpu(url, 1).acquire(blocking=False)


def test_an_attempt_that_ran_out_of_time_leaves_the_slot_free(postgres_url: str) -> None:
    """The answer that grants it may be under way just then; slot and ticket are given back."""
    for attempt in range(10):
        semaphore = gpu(postgres_url, 1, ttl_s=60)
        if semaphore.acquire(timeout_s=0.001 + attempt * 0.002):
            semaphore.release()
        assert gpu(postgres_url, 1, ttl_s=60).acquire(timeout_s=30)
