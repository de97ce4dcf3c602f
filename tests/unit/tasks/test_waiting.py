import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tidemill.store import Document
from tidemill.tasks import waiting as module
from tidemill.tasks.order import Order
from tidemill.tasks.registry import Registry
from tidemill.tasks.waiting import Waiting


class Told:
    """Remembers what it is told, and can be waited for."""

    def __init__(self) -> None:
        self.ended: dict[str, Document | None] = {}
        self._changed = asyncio.Event()

    def __call__(self, key: str, document: Document | None) -> None:
        assert key not in self.ended
        self.ended[key] = document
        self._changed.set()

    async def has(self, *keys: str) -> None:
        while not set(keys) <= self.ended.keys():
            self._changed.clear()
            await self._changed.wait()


@asynccontextmanager
async def waiting(registry: Registry, told: Told) -> AsyncIterator[Waiting]:
    one = Waiting(registry.store, told)
    task = asyncio.create_task(one.run())
    try:
        yield one
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def submitted(registry: Registry, count: int) -> list[str]:
    return [key for key, _ in await registry.submit_all([Order(queue="work")] * count)]


async def test_the_end_of_a_task_is_told_once(registry: Registry) -> None:
    told = Told()
    [key] = await submitted(registry, 1)
    async with waiting(registry, told) as one:
        one.add(key, "nobody")
        await told.has("nobody")
        before = dict(told.ended)
        await registry.cancel(key)
        await told.has(key)

    found = told.ended[key]
    assert before == {"nobody": None}
    assert found is not None
    assert found.body["status"] == -5


async def test_a_task_that_ended_long_ago_is_told_while_others_go_on(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_S", 3600.0)
    told = Told()
    running, done = await submitted(registry, 2)
    await registry.cancel(done)
    async with waiting(registry, told) as one:
        one.add(running, "nobody")
        await told.has("nobody")
        one.add(done)
        await told.has(done)

    assert running not in told.ended


async def test_those_behind_many_that_go_on_are_told_too(registry: Registry) -> None:
    told = Told()
    keys = await submitted(registry, 3 * module.CHUNK + 2)
    async with waiting(registry, told) as one:
        one.add(*keys)
        for key in (keys[-1], keys[2 * module.CHUNK]):
            await registry.cancel(key)
            while key not in told.ended:
                await asyncio.sleep(0)
                await registry.park(keys[0], -7)
                await registry.retry(keys[0])

    assert set(told.ended) == {keys[-1], keys[2 * module.CHUNK]}
