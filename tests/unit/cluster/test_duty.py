import asyncio

import pytest

from tidemill.cluster import Duty, Gained, Grant, Lost
from tidemill.store import Fenced, Unavailable

GRANT = Grant("leader", 3, 100.0)


class Work:
    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.begun = 0
        self.running = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self, grant: Grant) -> None:
        self.begun += 1
        try:
            if self.errors:
                raise self.errors.pop(0)
            self.running.set()
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def test_work_runs_from_gained_to_lost() -> None:
    work = Work()
    duty = Duty("test", work)
    duty.on_event(Gained(GRANT))
    await work.running.wait()
    duty.on_event(Lost(3))
    await work.ended.wait()

    assert work.begun == 1


async def test_work_that_failed_begins_again_while_this_node_leads(caplog: pytest.LogCaptureFixture) -> None:
    work = Work(*[Unavailable("away")] * 3)
    duty = Duty("test", work, retry_s=0.0)
    duty.on_event(Gained(GRANT))
    await work.running.wait()
    await duty.stop()

    assert work.begun == 4
    assert [record.message for record in caplog.records] == ["duty.failed"]


async def test_work_that_was_fenced_does_not_begin_again() -> None:
    work = Work(Fenced("passed"))
    duty = Duty("test", work, retry_s=0.0)
    duty.on_event(Gained(GRANT))
    await work.ended.wait()
    await duty.stop()

    assert work.begun == 1


async def test_stopping_without_having_led_is_harmless() -> None:
    await Duty("test", Work()).stop()


async def test_work_that_raises_what_nobody_expected_begins_again() -> None:
    work = Work(KeyError("a bug"))
    duty = Duty("test", work, retry_s=0.0)
    duty.on_event(Gained(GRANT))
    await work.running.wait()
    await duty.stop()

    assert work.begun == 2
