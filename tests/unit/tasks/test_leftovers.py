"""Blobs that nobody refers to go, and no others do, on every store."""

import time
from pathlib import Path

import pytest

from tidemill.store import open_store
from tidemill.store.blobs import Blobs
from tidemill.tasks import leftovers
from tidemill.tasks.blobs import Shelves, announce_blobs
from tidemill.tasks.handlers import HANDLERS
from tidemill.tasks.leftovers import GRACE_S, Leftovers
from tidemill.tasks.order import Order
from tidemill.tasks.registry import Registry


@pytest.fixture
async def tasks(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Tasks whose blobs lie in a folder, by a clock that is two days ahead."""
    await announce_blobs(registry.store, str(tmp_path / "blobs"))
    monkeypatch.setattr(Blobs, "now", lambda _: time.time() + 2 * GRACE_S)
    return registry


async def blob(registry: Registry, name: str) -> object:
    return await registry.shelves.put(name, name.encode(), inline=False)


async def names(registry: Registry) -> list[str]:
    return sorted(entry.name for entry in (await registry.shelves.open()).entries())


async def test_what_nobody_refers_to_goes_with_the_second_look_that_finds_it_so(tasks: Registry) -> None:
    await blob(tasks, "tasks/x/payload")
    leader = Leftovers(tasks)

    assert (await leader.look(), await names(tasks)) == (0, ["tasks/x/payload"])
    assert (await leader.look(), await names(tasks)) == (1, [])
    assert await leader.look() == 0


async def test_what_is_referred_to_stays_whoever_it_is_named_after(
    tasks: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "PAGE", 2)
    await tasks.submit(Order(queue="work", key="daily", payload=await blob(tasks, "tasks/another/payload")))
    for n in range(5):
        await tasks.submit(Order(queue="work", payload=await blob(tasks, f"tasks/{n}/payload")))
    await tasks.store.create(HANDLERS, "a", {"payload": await blob(tasks, "tasks/a/handler")})
    await blob(tasks, "pipelines/p/run")
    before = await names(tasks)
    leader = Leftovers(tasks)

    assert [await leader.look() for _ in range(3)] == [0, 0, 0]
    assert await names(tasks) == before


async def test_what_is_referred_to_after_the_first_look_stays(tasks: Registry) -> None:
    value = await blob(tasks, "tasks/x/payload")
    leader = Leftovers(tasks)
    await leader.look()
    await tasks.submit(Order(queue="work", payload=value))
    await leader.look()

    assert await names(tasks) == ["tasks/x/payload"]


async def test_what_is_young_stays(tasks: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Blobs, "now", lambda _: time.time() + GRACE_S - 600)
    await blob(tasks, "tasks/x/payload")
    leader = Leftovers(tasks)

    assert [await leader.look() for _ in range(3)] == [0, 0, 0]


async def test_where_no_node_has_said_where_blobs_are_there_are_none(registry: Registry) -> None:
    assert await Leftovers(registry).look() == 0


async def test_what_another_store_has_in_the_same_place_stays(tasks: Registry, tmp_path: Path) -> None:
    async with open_store("memory:") as other:
        its = Shelves(other, str(tmp_path / "blobs"))
        value = await its.put("tasks/x/payload", b"its own", inline=False)
        await blob(tasks, "tasks/x/payload")
        leader = Leftovers(tasks)

        assert [await leader.look() for _ in range(3)] == [0, 1, 0]
        assert await its.read(value) == b"its own"
