import sys
from typing import Any

import cloudpickle
import pytest

import tidemill
from tidemill.api.asking import ask
from tidemill.api.client import Client
from tidemill.api.guard import fence_here
from tidemill.store import Fence, Store
from tidemill.tasks.call import Origin, pickle_call, pickle_function
from tidemill.tasks.queue import Queue, create_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.runner import current as runner
from tidemill.tasks.runner.job import Job
from tidemill.tasks.task import TASKS
from upnode import UpNode

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # nodes do not have the tests


def describe() -> dict[str, Any]:
    task = tidemill.current()
    return {
        "id": task.id,
        "attempt": task.attempt,
        "fence": task.fence,
        "queue": task.queue,
        "node": task.node,
        "guard": (task.guard().collection.name, task.guard().key, task.guard().term),
    }


def test_a_function_knows_the_task_that_it_runs_as(client: Client, node: UpNode) -> None:
    future = client.submit(describe)
    told = future.result(60)

    assert (told["id"], told["attempt"], told["queue"], told["node"]) == (
        future.id,
        1,
        "functions",
        node.name,
    )
    assert told["fence"] > 0
    assert told["guard"] == ("tasks", future.id, told["fence"])


def test_another_attempt_has_a_higher_fence(client: Client) -> None:
    async def retrying(store: Store) -> None:
        queue = Queue(name="retrying", kind="function")
        await create_queue(store, queue)

    async def retry(store: Store) -> None:
        await Registry(store).retry(first.id)

    ask(client.url, retrying)
    with tidemill.Executor(client.url, queue="retrying") as executor:
        first = executor.submit(describe)
        before = first.result(60)
        ask(client.url, retry)
        after = executor.future(first.id).result(60)

    assert after["attempt"] == 2
    assert after["fence"] > before["fence"]


def test_functions_of_one_client_share_a_context_with_it(client: Client) -> None:
    def add(number: int) -> None:
        tidemill.current().context.update(lambda state: {"sum": state.get("sum", 0) + number})

    list(client.map(add, range(8)))

    assert client.context()["sum"] == 28


def test_locks_and_semaphores_keep_order_among_functions(client: Client) -> None:
    lock = tidemill.Lock(client.url, "till")
    semaphore = tidemill.Semaphore(client.url, "gpu", slots=1)

    def take(at: int) -> tuple[int, int]:
        with lock, semaphore:
            return lock.fence, semaphore.slot

    taken = list(client.map(take, range(4)))

    assert len({fence for fence, _ in taken}) == 4
    assert {slot for _, slot in taken} == {0}


def test_a_context_can_be_sent_along(client: Client) -> None:
    context = client.context("letters")
    client.submit(lambda: context.set("a", 1)).result(60)

    assert context.copy() == {"a": 1}


def test_writes_carry_the_fence_of_the_task_that_makes_them_to_its_own_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = pickle_call(pickle_function(print), (), {}, Origin("sqlite:////mine.db", "default"))
    job = Job("t1", 42, 1, "functions", "function", payload=call)
    monkeypatch.setattr(runner, "running", runner.Running(1, job, lambda _: None))

    assert fence_here("sqlite:////mine.db") == tidemill.current().guard() == Fence(TASKS, "t1", 42)
    assert fence_here("sqlite:////others.db") is None


def test_a_task_whose_submitter_named_no_store_has_no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    call = pickle_call(pickle_function(print), (), {})
    job = Job("t1", 42, 1, "functions", "function", payload=call)
    monkeypatch.setattr(runner, "running", runner.Running(1, job, lambda _: None))

    with pytest.raises(RuntimeError, match="did not name a store"):
        _ = tidemill.current().context


def test_outside_of_a_task_there_is_none() -> None:
    with pytest.raises(RuntimeError, match="no task runs here"):
        tidemill.current()
