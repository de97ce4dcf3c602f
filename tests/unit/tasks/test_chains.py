"""A result becomes a job of another queue exactly once, on every store, whoever dies where."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from tidemill.cluster import Grant
from tidemill.store import Store, eq
from tidemill.tasks.chains import LOOK_S, REST_S, Chains, child_of
from tidemill.tasks.claim import Seat, claim_of
from tidemill.tasks.errors import QueueInUse
from tidemill.tasks.order import Order, child_id
from tidemill.tasks.policy import Policy
from tidemill.tasks.queue import QUEUES, Queue, create_queue, get_queue, update_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.status import QUEUED, SUCCEEDED
from tidemill.tasks.task import ONWARD, TASKS, Finished, Task, body_of, move, task_of

T = TypeVar("T")
CALLS = 20
BLOB = {"name": "tasks/x/1/result", "size": 99_999, "digest": "b3:…"}


class Killed(BaseException):
    """The process ends here."""


class Mortal(Store):
    """A store whose process dies at one of its calls: before the call is sent, or before its answer."""

    def __init__(self, store: Store, calls: int, *, answered: bool) -> None:
        super().__init__(store._backend)
        self._left = calls
        self._answered = answered

    async def _call(self, request: Callable[[], Awaitable[T]], **options: Any) -> T:
        self._left -= 1
        if self._left < 0:
            raise Killed
        answer = await super()._call(request, **options)
        if self._left == 0 and not self._answered:
            raise Killed
        return answer


@pytest.fixture
async def registry(store: Store) -> Registry:
    """Results of queue `first` become jobs of queue `second`."""
    await create_queue(store, Queue(name="second", kind="remote"))
    await create_queue(store, Queue(name="first", kind="remote", becomes="second"))
    return Registry(store)


async def finished(registry: Registry, result: Any = BLOB) -> str:
    """The id of a job of queue `first` that has just ended with that result."""
    order = Order(queue="first", payload={"base64": ""}, priority=1000, description="a chain")
    key, _ = await registry.submit(order)
    queue = await get_queue(registry.store, "first")
    [held] = await registry.store.claim(TASKS, claim_of(queue, Seat("vm-1", "token-1", 60_000), 1, None))
    now = await registry.store.now()
    ended = move(task_of(held), Finished(SUCCEEDED, result, onward="second"), Policy(), now)
    await registry.store.replace(TASKS, key, body_of(ended), expect=held.revision, release=True)
    return key


async def children(registry: Registry) -> dict[str, Task]:
    return {found.key: task_of(found) async for found in registry.each(eq("queue", "second"))}


async def pass_on(store: Store, key: str) -> str | None:
    registry = Registry(store, source=random.Random(1))
    return await Chains(registry).pass_on(key, (await registry.get(key))[2])


async def test_a_result_becomes_a_job_as_it_is(registry: Registry) -> None:
    key = await finished(registry)
    made = await pass_on(registry.store, key)
    [(child, task)] = (await children(registry)).items()
    parent = (await registry.get(key))[1]

    assert made == child == parent.child == child_id(key, 1)
    assert parent.rank == parent.ended
    assert (task.status, task.payload, task.parent, task.batch) == (QUEUED, BLOB, key, 1)
    assert (task.priority, task.description) == (1000, "a chain")


async def test_a_repeat_makes_nothing_and_takes_no_seat(registry: Registry) -> None:
    key = await finished(registry)
    before = (await registry.get(key))[2]
    chains = Chains(registry)
    made = [await chains.pass_on(key, before) for _ in range(3)]
    made.append(await pass_on(registry.store, key))

    assert made == [child_id(key, 1)] * 4
    assert (await registry.batches.get("second", 1)).taken == 1


async def test_many_who_pass_on_at_once_make_one_job(registry: Registry) -> None:
    key = await finished(registry)
    nodes = [Registry(registry.store) for _ in range(8)]
    document = (await registry.get(key))[2]
    await asyncio.gather(*(Chains(node).pass_on(key, document) for node in nodes))

    assert list(await children(registry)) == [child_id(key, 1)]


@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize("calls", range(1, CALLS))
async def test_whoever_dies_between_two_calls_leaves_one_job(
    registry: Registry, calls: int, answered: bool
) -> None:
    key = await finished(registry)
    try:
        await pass_on(Mortal(registry.store, calls, answered=answered), key)
    except Killed:
        pass
    await Chains(Registry(registry.store)).look()
    parent = (await registry.get(key))[1]

    assert list(await children(registry)) == [child_id(key, 1)] == [parent.child]
    assert parent.rank != ONWARD


async def test_no_more_calls_are_made_than_those_at_which_one_may_die(registry: Registry) -> None:
    key = await finished(registry)

    assert await pass_on(Mortal(registry.store, CALLS, answered=True), key) == child_id(key, 1)


async def test_an_old_document_makes_no_second_job(registry: Registry) -> None:
    key = await finished(registry)
    old = (await registry.get(key))[2]
    child = await pass_on(registry.store, key)
    assert child is not None
    await registry.cancel(child)
    await registry.delete(child)

    assert await Chains(registry).pass_on(key, old) == child
    assert await children(registry) == {}


@pytest.mark.parametrize("deletes", ["one", "all"])
async def test_a_child_that_is_deleted_before_its_parent_knows_it_is_not_made_again(
    registry: Registry, deletes: str
) -> None:
    key = await finished(registry)
    child, _ = await registry.submit(child_of(key, (await registry.get(key))[1]))
    await registry.cancel(child)
    await (registry.delete(child) if deletes == "one" else registry.delete_all(eq("queue", "second")))
    await Chains(registry).look()

    assert await children(registry) == {}
    assert (await registry.get(key))[1].child == child


async def test_a_job_that_is_done_again_becomes_another(registry: Registry) -> None:
    key = await finished(registry)
    task = (await registry.get(key))[1]

    assert child_of(key, task).id == child_id(key, 1) != child_id(key, 2)


async def test_the_leader_passes_on_what_was_left(registry: Registry) -> None:
    keys = [await finished(registry, {"base64": str(n)}) for n in range(3)]
    rest_s = await Chains(registry).look()

    assert rest_s == LOOK_S
    assert set(await children(registry)) == {child_id(key, 1) for key in keys}


async def test_what_was_left_is_found_though_the_queue_has_no_chain_any_more(registry: Registry) -> None:
    key = await finished(registry)
    await update_queue(registry.store, "first", {"becomes": None})
    chains = Chains(registry)
    rests = [await chains.look(), await chains.look()]

    assert list(await children(registry)) == [child_id(key, 1)]
    assert rests == [REST_S, REST_S]


async def test_without_chains_nothing_is_asked_but_which_queues_there_are(registry: Registry) -> None:
    await update_queue(registry.store, "first", {"becomes": None})
    chains = Chains(registry)
    await chains.look()
    before = registry.store.statistics().calls
    rest_s = await chains.look()

    assert rest_s == REST_S
    assert registry.store.statistics().calls - before == 1


async def test_the_leader_does_a_round_when_its_term_begins(registry: Registry) -> None:
    key = await finished(registry)
    leading = asyncio.create_task(Chains(registry).lead(Grant("leader", 1, 1e9)))
    async with registry.store.watch(TASKS, poll_s=0.1) as watch:
        while (await registry.get(key))[1].child is None:
            await watch.wait()
    leading.cancel()

    assert list(await children(registry)) == [child_id(key, 1)]


@pytest.mark.parametrize("kind", ["none", "function"])
async def test_a_result_waits_while_its_queue_takes_no_jobs(
    registry: Registry, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    key = await finished(registry)
    second = await get_queue(registry.store, "second")
    await registry.store.delete(QUEUES, "second", expect=second.revision)
    if kind == "function":
        await create_queue(registry.store, Queue(name="second", kind="function"))
    chains = Chains(Registry(registry.store))
    rests = [await chains.look(), await chains.look()]
    waiting = (await registry.get(key))[1]

    assert (rests, waiting.rank, await children(registry)) == ([LOOK_S, LOOK_S], ONWARD, {})
    assert [entry.message for entry in caplog.records] == ["chain.broken"]


async def test_a_result_goes_on_once_its_queue_is_there_again(registry: Registry) -> None:
    key = await finished(registry)
    second = await get_queue(registry.store, "second")
    await registry.store.delete(QUEUES, "second", expect=second.revision)
    chains = Chains(registry)
    await chains.look()
    await create_queue(registry.store, Queue(name="second", kind="remote"))
    await chains.look()

    assert list(await children(registry)) == [child_id(key, 1)]


async def test_a_queue_is_not_deleted_while_its_results_are_still_to_become_jobs(registry: Registry) -> None:
    await finished(registry)
    with pytest.raises(QueueInUse, match="are still to become jobs of another"):
        await registry.delete_queue("first")
    await Chains(registry).look()
    await registry.delete_queue("first")

    assert len(await children(registry)) == 1


async def test_nothing_is_made_of_a_job_that_was_deleted_meanwhile(registry: Registry) -> None:
    key = await finished(registry, {"base64": ""})
    document = (await registry.get(key))[2]
    await registry.store.delete(TASKS, key, expect=document.revision)

    assert await Chains(registry).pass_on(key, document) is None
    assert await children(registry) == {}
