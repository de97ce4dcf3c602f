"""The leader's care for the calls of submitters that are gone."""

import pytest

from tidemill.cluster import Timing
from tidemill.store import Claim, Document, Store, Term, eq
from tidemill.tasks.errors import NoSuchTask
from tidemill.tasks.handlers import HANDLERS, Handler, Handlers, Todo, decide
from tidemill.tasks.order import Order
from tidemill.tasks.policy import Policy
from tidemill.tasks.queue import LEADER_QUEUE, get_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.status import CANCELLED, FAILED, ORPHANED, QUEUED, RUNNING, SUCCEEDED, TERMINATED
from tidemill.tasks.task import TASKS, Finished, Task, body_of, move, task_of

CALL = {"base64": "Y2FsbA=="}


def task(status: int, *, cancel: bool = False) -> Task:
    return Task(queue="work", status=status, rank=0, turn=0, place=0, ctime=0, mtime=0, cancel=cancel)


@pytest.mark.parametrize(
    ("of", "due", "todo"),
    [
        (task(FAILED), None, "call"),
        (task(TERMINATED), None, "call"),
        (task(ORPHANED), None, "call"),
        (task(CANCELLED), 200, "call"),
        (task(SUCCEEDED), None, "forget"),
        (task(SUCCEEDED), 50, "forget"),
        (None, 50, "forget"),
        (task(QUEUED), None, "wait"),
        (task(RUNNING), 101, "wait"),
        (task(RUNNING), 100, "cancel"),
        (task(QUEUED), 50, "cancel"),
        (task(RUNNING, cancel=True), 50, "wait"),
    ],
)
def test_what_is_to_be_done_depends_on_how_the_task_ended(
    of: Task | None, due: int | None, todo: Todo
) -> None:
    assert decide(Handler(CALL, due), of, now=100) == todo


def test_a_handler_that_was_never_written_is_forgotten() -> None:
    assert decide(Handler(), task(FAILED), now=100) == "forget"


async def a_task(registry: Registry) -> str:
    key, _ = await registry.submit(Order(queue="work"))
    return key


async def owe(store: Store, key: str, *, due: int | None = None, lives: bool = False) -> None:
    """As a submitter does, which dies after that unless it lives."""
    lease = (await store.hold(HANDLERS, [key], "submitter", 600_000))[key]
    body = {"payload": CALL, "due": due}
    await store.replace(HANDLERS, key, body, expect=Term(lease.term), release=not lives)


async def end(registry: Registry, key: str, status: int) -> None:
    """Run it to that end, as a node does."""
    [found] = await registry.store.claim(
        TASKS, Claim((eq("key", key),), "node", 600_000, set=(("status", 0),))
    )
    ended = move(task_of(found), Finished(status), Policy(), await registry.store.now())
    await registry.store.replace(TASKS, key, body_of(ended), expect=Term(found.term), release=True)


def leader(registry: Registry) -> Handlers:
    return Handlers(registry, "vm-1", "leader-token", Timing(600.0))


async def called(registry: Registry, key: str) -> Task | None:
    """The task that does the call, if there is one."""
    try:
        return (await registry.get(f"handler:{key}"))[1]
    except NoSuchTask:
        return None


async def left(store: Store) -> list[Document]:
    return (await store.find(HANDLERS)).documents


async def test_the_leader_has_the_call_of_a_failed_task_done_on_its_own_node(registry: Registry) -> None:
    key = await a_task(registry)
    await end(registry, key, FAILED)
    await owe(registry.store, key)
    await leader(registry).look()
    made = await called(registry, key)

    assert made is not None
    assert (made.queue, made.payload, made.parent) == (LEADER_QUEUE, CALL, key)
    assert (await get_queue(registry.store, LEADER_QUEUE)).nodes == ("vm-1",)
    assert await left(registry.store) == []


async def test_the_call_of_a_task_that_succeeded_is_forgotten(registry: Registry) -> None:
    key = await a_task(registry)
    await end(registry, key, SUCCEEDED)
    await owe(registry.store, key)
    await leader(registry).look()

    assert await called(registry, key) is None
    assert await left(registry.store) == []


async def test_what_a_living_submitter_holds_is_left_to_it(registry: Registry) -> None:
    key = await a_task(registry)
    await end(registry, key, FAILED)
    await owe(registry.store, key, lives=True)
    rest_s = await leader(registry).look()

    assert await called(registry, key) is None
    assert [found.holder for found in await left(registry.store)] == ["submitter"]
    assert rest_s > 1


async def test_a_task_that_goes_on_is_watched_until_it_ends(registry: Registry) -> None:
    key = await a_task(registry)
    await owe(registry.store, key)
    handlers = leader(registry)
    await handlers.look()
    before = await called(registry, key)
    await end(registry, key, FAILED)
    await handlers.look()

    assert before is None
    assert await called(registry, key) is not None


async def test_a_task_that_is_late_is_cancelled_before_the_call_is_done(registry: Registry) -> None:
    key = await a_task(registry)
    await owe(registry.store, key, due=1)
    handlers = leader(registry)
    await handlers.look()
    before, late = await called(registry, key), (await registry.get(key))[1]
    await handlers.look()

    assert before is None
    assert (late.status, late.reason) == (CANCELLED, "it had not ended in time")
    assert await called(registry, key) is not None


async def test_two_leaders_have_one_call_done(registry: Registry) -> None:
    key = await a_task(registry)
    await end(registry, key, FAILED)
    await owe(registry.store, key)
    await leader(registry).look()
    await owe(registry.store, key)  # as if the first had died before it could delete it
    await leader(registry).look()

    assert await registry.count(eq("queue", LEADER_QUEUE)) == 1
    assert await left(registry.store) == []


async def test_what_waits_for_the_leader_goes_where_that_is(registry: Registry) -> None:
    key = await a_task(registry)
    await end(registry, key, FAILED)
    await owe(registry.store, key)
    await leader(registry).look()
    await Handlers(registry, "vm-2", "another", Timing(600.0))._move_queue()

    assert (await get_queue(registry.store, LEADER_QUEUE)).nodes == ("vm-2",)
