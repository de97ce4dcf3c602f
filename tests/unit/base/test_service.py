import asyncio

import pytest

from tidemill.base.errors import TidemillError
from tidemill.base.service import Service


class Counter(Service):
    name = "counter"
    retry_s = 0.0

    def __init__(self, delay: float = 3600.0) -> None:
        super().__init__()
        self.delay = delay
        self.ticks = 0
        self.ticked = asyncio.Event()
        self.errors: list[Exception] = []

    async def tick(self) -> float:
        self.ticks += 1
        self.ticked.set()
        if self.errors:
            raise self.errors.pop()
        return self.delay

    async def next_tick(self) -> None:
        self.ticked.clear()
        await self.ticked.wait()


async def test_a_service_ticks_at_once_and_when_woken() -> None:
    async with Counter() as counter:
        await counter.next_tick()
        counter.wake()
        await counter.next_tick()

        assert counter.ticks == 2


async def test_starting_and_stopping_twice_is_harmless() -> None:
    counter = Counter()
    await counter.stop()
    await counter.start()
    await counter.start()
    await counter.next_tick()
    await counter.stop()
    await counter.stop()

    assert counter.ticks == 1


async def test_an_error_that_can_be_named_does_not_end_it() -> None:
    async with Counter(delay=0.0) as counter:
        counter.errors.append(TidemillError("the store is away"))
        while counter.ticks < 4:
            await counter.next_tick()


async def test_an_error_that_comes_again_and_again_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with Counter(delay=0.0) as counter:
        counter.errors += [TidemillError("the store is away")] * 3
        while counter.ticks < 5:
            await counter.next_tick()

    assert [line.message for line in caplog.records] == ["service.round_failed"]


async def test_any_other_error_is_raised_by_stop() -> None:
    counter = Counter()
    counter.errors.append(ValueError("a bug"))
    await counter.start()
    await counter.next_tick()
    with pytest.raises(ValueError, match="a bug"):
        await counter.stop()


async def test_any_other_error_is_logged_when_it_ends_the_service(caplog: pytest.LogCaptureFixture) -> None:
    counter = Counter()
    counter.errors.append(ValueError("a bug"))
    await counter.start()
    await counter.next_tick()
    with pytest.raises(ValueError, match="a bug"):
        await counter.stop()

    assert [(line.message, line.__dict__["fields"]["error"]) for line in caplog.records] == [
        ("service.ended", "ValueError: a bug")
    ]
