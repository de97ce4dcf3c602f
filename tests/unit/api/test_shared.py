import concurrent.futures
import pickle
from pathlib import Path

import pytest

import tidemill
from tidemill.api.asking import ask
from tidemill.store import BadRequest, Claim, Fence, Fenced, Store
from tidemill.tasks.order import Order
from tidemill.tasks.queue import Queue, create_queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.task import TASKS


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


def test_what_one_sets_another_reads(url: str) -> None:
    tidemill.SharedContext(url, "files").set("seen", [1, {"a": None}])
    other = tidemill.SharedContext(url, "files")

    assert other["seen"] == [1, {"a": None}]
    assert other.get("missing", 7) == 7
    assert ("seen" in other, len(other), list(other)) == (True, 1, ["seen"])
    assert dict(other.items()) == other.copy() == {"seen": [1, {"a": None}]}
    assert tidemill.SharedContext(url, "others").copy() == {}
    with pytest.raises(KeyError):
        _ = other["missing"]


def test_no_change_is_lost_however_many_change_it(url: str) -> None:
    def count(_: int) -> None:
        tidemill.SharedContext(url, "count").update(lambda state: {"n": state.get("n", 0) + 1})

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        list(threads.map(count, range(20)))

    assert tidemill.SharedContext(url, "count")["n"] == 20


def test_a_change_may_be_made_in_place(url: str) -> None:
    context = tidemill.SharedContext(url, "files")
    with context:
        context.set("queue", ["a", "b"])
        after = context.update(lambda state: state["queue"].append("c"))

    assert after == context.copy() == {"queue": ["a", "b", "c"]}


def test_entries_and_whole_contexts_are_removed(url: str) -> None:
    context = tidemill.SharedContext(url, "files")
    context.update(lambda _: {"a": 1, "b": 2})
    context.delete("a")
    context.delete("missing")
    left = context.copy()
    context.delete()
    context.delete()

    assert left == {"b": 2}
    assert context.copy() == {}


def test_a_pickle_says_which_context_it_is(url: str) -> None:
    context = tidemill.SharedContext(url, "files")
    with context:
        arrived = pickle.loads(pickle.dumps(context))
    arrived.set("a", 1)

    assert context["a"] == 1


def test_what_is_no_json_is_refused(url: str) -> None:
    context = tidemill.SharedContext(url, "files")

    with pytest.raises(BadRequest):
        context.set("a", object())
    with pytest.raises(ValueError, match="memory"):
        tidemill.SharedContext("memory:", "files")


def test_a_lost_attempt_changes_nothing(url: str) -> None:
    async def taken_twice(store: Store) -> tuple[Fence, Fence]:
        await create_queue(store, Queue(name="work", kind="function"))
        key, _ = await Registry(store).submit(Order(queue="work"))
        terms = []
        for holder in ("first", "second"):
            [found] = await store.claim(TASKS, Claim((), holder, 600_000))
            terms.append(Fence(TASKS, key, found.term))
            if holder == "first":
                await store.release(TASKS, {key: found.term})
        return terms[0], terms[1]

    stale, fresh = ask(url, taken_twice)
    tidemill.SharedContext(url, "files", fence=fresh).set("a", 1)
    zombie = tidemill.SharedContext(url, "files", fence=stale)

    with pytest.raises(Fenced):
        zombie.set("a", 2)
    with pytest.raises(Fenced):
        zombie.delete()
    with pytest.raises(Fenced):
        tidemill.SharedContext(url, "new", fence=stale).set("a", 2)
    assert tidemill.SharedContext(url, "files").copy() == {"a": 1}
