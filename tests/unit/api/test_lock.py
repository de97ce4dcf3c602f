import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import tidemill
from proxy import CuttingProxy
from tidemill.api.asking import ask
from tidemill.base.bridge import LoopThread
from tidemill.cluster.lock import LOCKS
from tidemill.store import Fenced, Store, Unavailable, open_store


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


def expiry(url: str) -> int:
    """Until when the lock is held, as the store has it."""

    async def read(store: Store) -> int:
        found = await store.get(LOCKS, "report")
        assert found is not None
        return found.expire

    return ask(url, read)


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_a_second_holder_waits_for_the_release(url: str) -> None:
    first, second = tidemill.Lock(url, "report"), tidemill.Lock(url, "report")
    with first:
        assert first.held
        assert not second.acquire(blocking=False)
        waiting = in_thread(second.acquire)
        fence = first.fence
    waiting.join(20)

    assert second.held
    assert second.fence > fence
    second.release()


def test_other_names_do_not_exclude_each_other(url: str) -> None:
    with tidemill.Lock(url, "one") as one, tidemill.Lock(url, "two") as two:
        assert one.held
        assert two.held


def test_waiting_ends_with_its_timeout(url: str) -> None:
    with tidemill.Lock(url, "report"):
        assert not tidemill.Lock(url, "report").acquire(timeout_s=0.1)


def test_a_lock_is_renewed_while_it_is_held(url: str) -> None:
    """So long a lease that it is not lost on a machine that has much else to do."""
    with tidemill.Lock(url, "report", ttl_s=4) as lock:
        fence, first = lock.fence, expiry(url)
        while expiry(url) == first:
            time.sleep(0.01)
        assert not tidemill.Lock(url, "report").acquire(blocking=False)
        assert lock.fence == fence


def test_a_lock_can_be_taken_again_under_a_higher_fence(url: str) -> None:
    lock = tidemill.Lock(url, "report")
    lock.acquire()
    first = lock.fence
    lock.release()
    lock.release()
    with lock:
        assert lock.fence > first


def test_a_lock_that_is_not_held_gives_no_fence(url: str) -> None:
    lock = tidemill.Lock(url, "report")

    assert not lock.held
    with pytest.raises(tidemill.LeaseLost):
        _ = lock.fence


def test_taking_it_twice_with_one_object_is_an_error(url: str) -> None:
    with tidemill.Lock(url, "report") as lock, pytest.raises(RuntimeError, match="already"):
        lock.acquire()


def test_a_holder_that_was_robbed_knows_it_and_is_fenced(url: str) -> None:
    """Somebody takes the lease away by force; the next renewal finds out."""
    with tidemill.Lock(url, "report", ttl_s=2) as lock, LoopThread() as loop:
        guard = lock.guard()

        async def rob() -> None:
            async with open_store(url) as store:
                await store.release(LOCKS, {"report": guard.term})
                await store.hold(LOCKS, ["report"], "robber", 60_000)

        loop.run(rob())
        assert lock.wait_lost(20)
        assert not lock.held

        async def write() -> None:
            async with open_store(url) as store:
                await store.create(LOCKS, "guarded", {}, fence=guard)

        with pytest.raises(Fenced):
            loop.run(write())


def test_one_who_waits_for_the_loss_is_woken_by_the_release(url: str) -> None:
    lock = tidemill.Lock(url, "report", ttl_s=60)
    lock.acquire()
    watching = threading.Event()

    def watch() -> None:
        watching.set()
        lock.wait_lost()

    thread = in_thread(watch)
    watching.wait()
    lock.release()
    thread.join(20)

    assert not thread.is_alive()


def test_a_store_that_cannot_be_reached_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(Unavailable):
        tidemill.Lock(f"sqlite:///{tmp_path}/file/store.db", "report").acquire()


def test_a_ttl_out_of_bounds_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="ttl_s"):
        tidemill.Lock(url, "report", ttl_s=0.1)


def test_a_lock_in_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="memory"):
        tidemill.Lock("memory:", "report")


@pytest.mark.parametrize("timeout_s", [float("nan"), -1.0])
def test_a_timeout_that_is_no_time_is_refused(url: str, timeout_s: float) -> None:
    with pytest.raises(ValueError, match="timeout_s"):
        tidemill.Lock(url, "report").acquire(timeout_s=timeout_s)


def test_a_lock_that_is_dropped_is_let_go_of(url: str) -> None:
    lock: tidemill.Lock | None = tidemill.Lock(url, "report", ttl_s=60)
    assert lock is not None
    lock.acquire()
    lock = None
    gc.collect()

    assert tidemill.Lock(url, "report").acquire(timeout_s=20)


def test_a_process_that_exits_lets_go_of_its_locks(url: str) -> None:
    code = f"import tidemill; lock = tidemill.Lock({url!r}, 'report', ttl_s=60); lock.acquire()"
    subprocess.run([sys.executable, "-c", code], check=True)

    assert tidemill.Lock(url, "report").acquire(blocking=False)


def test_a_forked_child_does_not_hold_its_parents_lock(url: str) -> None:
    code = f"""
import os, tidemill
with tidemill.Lock({url!r}, "report") as lock:
    if os.fork() == 0:
        assert not lock.held
        lock.release()
        os._exit(0)
    assert os.wait()[1] == 0
    assert lock.held
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


def test_an_attempt_that_ran_out_of_time_leaves_the_lock_free(postgres_url: str) -> None:
    """The answer that grants it may be under way just then; the lock is given back, not left to expire."""
    for attempt in range(25):
        lock = tidemill.Lock(postgres_url, f"report-{attempt}", ttl_s=60)
        if lock.acquire(timeout_s=0.001 + attempt * 0.0007):
            lock.release()
        assert tidemill.Lock(postgres_url, f"report-{attempt}", ttl_s=60).acquire(timeout_s=30)


def test_letting_go_raises_nothing_when_the_store_has_stopped_answering(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemill.api.leased.LEAVE_S", 0.2)
    parts = urlsplit(postgres_url)
    with LoopThread() as loop:
        proxy = CuttingProxy(str(parts.hostname), parts.port or 0)
        loop.run(proxy.__aenter__())
        between = parts._replace(netloc=f"{parts.username}@127.0.0.1:{proxy.port}").geturl()
        with tidemill.Lock(between, "report", ttl_s=60) as lock:
            loop.loop.call_soon_threadsafe(proxy.stall)
        loop.run(proxy.__aexit__(None, None, None))

    assert not lock.held
    assert not tidemill.Lock(postgres_url, "report", ttl_s=60).acquire(blocking=False)


def test_a_file_that_was_replaced_is_not_a_lock_any_more(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with tidemill.Lock(url, "report", ttl_s=0.5) as lock:
        for path in tmp_path.iterdir():
            path.unlink()
        with tidemill.Lock(url, "report") as other:
            assert other.held
            assert lock.wait_lost(20)
            assert not lock.held
