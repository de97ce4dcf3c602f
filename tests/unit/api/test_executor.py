"""Functions run by a node in a process of its own, as users have it."""

import asyncio
import concurrent.futures
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import tidemill
from tidemill.api.asking import ask
from tidemill.api.client import Client
from tidemill.api.executor import TaskFuture
from tidemill.store import BadRequest, NoStore, Store, Unavailable
from tidemill.tasks.call import RemoteTraceback, TaskFailed
from tidemill.tasks.errors import NoSuchTask
from tidemill.tasks.queue import Queue, create_queue, update_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.task import Task

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # nodes do not have the tests


class Unusual(Exception):
    """Cannot be pickled, and says so when somebody tries."""

    def __init__(self, lock: object) -> None:
        super().__init__("unusual")
        self.lock = lock


def twice(number: int) -> int:
    return 2 * number


def divide(number: int) -> float:
    return 1 / number


def raise_unusual() -> None:
    raise Unusual(threading.Lock())


def run_on() -> None:
    tidemill.current().reporter.report(5.0, "running on")
    time.sleep(600)


def until(holds: Callable[[], Any]) -> Any:
    """What it says once it says something; the test's own time limit ends the wait."""
    while not (said := holds()):
        time.sleep(0.01)
    return said


def task_of(url: str, key: str) -> Task:
    async def get(store: Store) -> Task:
        return (await Registry(store).get(key))[1]

    return ask(url, get)


def make_queue(url: str, queue: Queue) -> None:
    async def make(store: Store) -> None:
        await create_queue(store, queue)

    ask(url, make)


def test_what_a_function_returns_comes_back(client: Client) -> None:
    def answer(a: list[int], *, b: dict[str, None]) -> tuple[Any, ...]:
        return a, b, os.getpid()

    future = client.submit(answer, [1, 2], b={"x": None})
    a, b, pid = future.result(60)

    assert (a, b) == ([1, 2], {"x": None})
    assert pid != os.getpid()
    assert future.done()
    assert future.exception() is None


def test_what_a_function_raises_comes_back_with_its_traceback(client: Client) -> None:
    future = client.submit(divide, 0)
    error = future.exception(60)

    assert "in divide" in task_of(client.url, future.id).stderr
    assert isinstance(error, ZeroDivisionError)
    assert isinstance(error.__cause__, RemoteTraceback)
    assert "in divide" in str(error.__cause__)
    assert "1 / number" in str(error.__cause__)


def test_what_cannot_be_pickled_is_told_in_words(client: Client) -> None:
    returned = client.submit(threading.Lock).exception(60)
    raised = client.submit(raise_unusual).exception(60)

    assert isinstance(returned, TypeError)
    assert "pickle" in str(returned)
    assert isinstance(raised, TaskFailed)
    assert "raise_unusual" in str(raised)


def test_a_function_that_cannot_be_sent_is_refused_at_once(client: Client) -> None:
    lock = threading.Lock()

    with pytest.raises(TypeError, match="pickle"):
        client.submit(lambda: lock)
    with pytest.raises(TypeError, match="send its id"):
        client.submit(print, TaskFuture("x", client))


def test_leaving_python_ends_the_task_and_not_the_runner(client: Client) -> None:
    left = client.submit(sys.exit, 3)
    error = left.exception(60)

    assert isinstance(error, TaskFailed)
    assert str(error) == "the function called sys.exit(3)"
    assert task_of(client.url, left.id).status == 2


def test_large_arguments_and_results_go_and_come(client: Client) -> None:
    large = os.urandom(3_000_000)

    assert client.submit(lambda content: content[::-1], large).result(60) == large[::-1]


def test_a_function_sees_its_surroundings_as_they_are_when_it_is_submitted(client: Client) -> None:
    surroundings = {"n": 1}

    def read() -> int:
        return surroundings["n"]

    first = client.submit(read)
    surroundings["n"] = 2
    second = client.submit(read)

    assert (first.result(60), second.result(60)) == (1, 2)


def test_a_map_gives_results_in_order(client: Client) -> None:
    assert list(client.map(twice, range(100), timeout=60)) == list(range(0, 200, 2))
    assert list(client.map(lambda a, b: a + b, [1, 2, 3], [10, 20])) == [11, 22]
    assert list(client.map(twice, [])) == []


def test_a_map_that_fails_raises_at_its_place(client: Client) -> None:
    results = client.map(divide, [1, 0, 2])

    assert next(results) == 1.0
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_waiting_as_with_any_futures(client: Client) -> None:
    futures = [client.submit(twice, n) for n in range(10)]
    done, not_done = concurrent.futures.wait(futures, timeout=60)

    assert (len(done), len(not_done)) == (10, 0)
    assert {future.result() for future in concurrent.futures.as_completed(futures)} == set(range(0, 20, 2))


async def test_a_future_can_be_awaited(client: Client) -> None:
    assert await asyncio.wrap_future(client.submit(twice, 5)) == 10


def test_a_callback_may_submit_more(client: Client) -> None:
    more: concurrent.futures.Future[TaskFuture[int]] = concurrent.futures.Future()
    client.submit(twice, 1).add_done_callback(
        lambda done: more.set_result(client.submit(twice, done.result()))
    )

    assert more.result(60).result(60) == 4


def test_a_task_that_waits_is_cancelled_at_once(client: Client) -> None:
    make_queue(client.url, Queue(name="paused", kind="function", paused=True))
    with tidemill.Executor(client.url, queue="paused") as executor:
        future = executor.submit(twice, 1)
        asked = future.cancel()
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(60)

        assert asked
        assert future.cancelled()
        assert future.cancel()
        assert concurrent.futures.wait([future], timeout=60).not_done == set()


def test_a_task_that_runs_is_ended_when_it_is_cancelled(client: Client) -> None:
    future = client.submit(run_on)
    progress = until(future.progress)
    asked = future.cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(60)

    assert (progress.percent, progress.info) == (5.0, "running on")
    assert asked
    assert task_of(client.url, future.id).status == -5


def test_a_task_that_has_ended_is_not_cancelled(client: Client) -> None:
    future = client.submit(twice, 1)
    future.result(60)

    assert not future.cancel()


def test_the_death_of_a_runner_is_told(client: Client) -> None:
    async def only_once(store: Store) -> None:
        await create_queue(store, Queue(name="deadly", kind="function"))
        await update_queue(store, "deadly", {"policy": {"crashes": 1}})

    ask(client.url, only_once)
    with tidemill.Executor(client.url, queue="deadly") as executor:
        error = executor.submit(lambda: os.kill(os.getpid(), signal.SIGKILL)).exception(60)

    assert isinstance(error, TaskFailed)
    assert "SIGKILL" in str(error)


def test_a_task_outlives_its_submitter_and_is_found_by_its_id(client: Client) -> None:
    program = f"""if True:
        import os, tidemill
        future = tidemill.connect({client.url!r}).submit(pow, 2, 10)
        print(future.id, flush=True)
        os.kill(os.getpid(), 9)
    """
    died = subprocess.run([sys.executable, "-c", program], check=False, stdout=subprocess.PIPE, text=True)

    assert died.returncode == -9
    assert client.future(died.stdout.strip()).result(60) == 1024


def test_a_future_is_found_again_after_it_is_done_and_while_others_run(client: Client) -> None:
    running = client.submit(run_on)
    done = client.submit(twice, 4)
    done.result(60)

    assert client.future(running.id) is running
    assert client.future(done.id).result(60) == 8
    running.cancel()


def test_an_id_that_nobody_has_is_told(client: Client) -> None:
    with pytest.raises(NoSuchTask):
        client.future("nobody").result(60)
    for nonsense in ("", "a,b", "x" * 1000, "a\0"):
        with pytest.raises(ValueError, match="no task's id"):
            client.future(nonsense)


def test_many_threads_may_share_an_executor(client: Client) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda n: client.submit(twice, n).result(60), range(40)))

    assert results == list(range(0, 80, 2))


def test_a_forked_child_is_told_that_the_executor_is_not_its_own(client: Client) -> None:
    future = client.submit(run_on)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        told = []
        for use in (
            lambda: client.submit(twice, 1),
            future.result,
            future.cancel,
            lambda: client.future("x"),
        ):
            try:
                use()
            except RuntimeError as error:
                told.append("after a fork" in str(error))
        client.shutdown()
        os.write(writing, repr(told).encode())
        os._exit(0)
    os.waitpid(child, 0)
    future.cancel()

    assert os.read(reading, 1000) == b"[True, True, True, True]"


def test_an_executor_that_was_shut_down_takes_no_more(client: Client) -> None:
    executor = tidemill.Executor(client.url)
    future = executor.submit(twice, 1)
    executor.shutdown()
    executor.shutdown()

    assert future.result(0) == 2
    with pytest.raises(RuntimeError, match="shut down"):
        executor.submit(twice, 1)
    with pytest.raises(RuntimeError, match="shut down"):
        executor.future(future.id)


def test_leaving_without_waiting_lets_futures_come_all_the_same(client: Client) -> None:
    executor = tidemill.Executor(client.url)
    future = executor.submit(twice, 21)
    executor.shutdown(wait=False)

    assert future.result(60) == 42


def test_leaving_can_cancel_what_is_under_way(client: Client) -> None:
    executor = tidemill.Executor(client.url)
    future = executor.submit(run_on)
    executor.shutdown(cancel_futures=True)

    assert future.cancelled()


def test_a_function_may_submit_others_which_are_its_children(client: Client) -> None:
    def spread() -> tuple[str, str]:
        return tidemill.current().id, client.submit(twice, 3).id

    parent, child = client.submit(spread).result(60)

    assert client.future(child).result(60) == 6
    assert task_of(client.url, child).parent == parent


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("memory:", ValueError),
        ("nonsense", BadRequest),
        ("http://127.0.0.1:1", Unavailable),
        ("http://127.0.0.1:1/path", BadRequest),
    ],
)
def test_an_address_that_leads_nowhere_is_refused(url: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        tidemill.Executor(url)


@pytest.mark.parametrize("make", [tidemill.Executor, tidemill.connect])
def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, make: Callable[[str], Any]) -> None:
    path = tmp_path / "mistyped" / "store.db"
    with pytest.raises(NoStore, match=f"there is no store at {path}; name another, or start a node there"):
        make(f"sqlite:///{path}")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [tidemill.Executor, tidemill.connect])
def test_a_store_without_nodes_is_warned_of(tmp_path: Path, make: Callable[[str], Any]) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    make_queue(url, Queue(name="functions", kind="function"))
    with pytest.warns(UserWarning, match="no node runs on this store"):
        executor = make(url)
    executor.submit(twice, 1)
    executor.shutdown(cancel_futures=True)
