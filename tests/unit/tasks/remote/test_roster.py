"""What a node writes down about its workers, on every store."""

import asyncio

import pytest

from tidemill.store import Store
from tidemill.tasks.remote import roster
from tidemill.tasks.remote.roster import WORKERS, Roster, get_worker
from tidemill.tasks.storetime import StoreTime


async def test_what_is_counted_after_a_calm_is_written_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that is killed later has forgotten none of it."""
    monkeypatch.setattr(roster, "FLUSH_S", 3600.0)
    counting = Roster(store, StoreTime(store))
    running = asyncio.create_task(counting.run())
    async with asyncio.timeout(30), store.watch(WORKERS, poll_s=0.1) as watch:
        counting.count("w-1", "adder", succeeded=1)
        while (found := await get_worker(store, "w-1")) is None:
            await watch.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert (found.name, found.succeeded, found.failed) == ("adder", 1, 0)


async def test_counts_of_several_nodes_add_up(store: Store) -> None:
    for _ in range(3):
        node = Roster(store, StoreTime(store))
        node.count("w-1", "adder", succeeded=2, failed=1)
        await node.flush()

    found = await get_worker(store, "w-1")
    assert found is not None
    assert (found.succeeded, found.failed) == (6, 3)


async def test_what_is_said_while_the_rest_is_written_is_written_before_a_flush_returns(store: Store) -> None:
    """As when a node leaves: nobody writes after that."""
    counting = Roster(store, StoreTime(store))
    for _ in range(5):
        counting.count("w-1", "adder", succeeded=1)
        writing = asyncio.create_task(counting.flush())
        await asyncio.sleep(0)
        counting.count("w-1", "adder", succeeded=1)
        await counting.flush()
        await writing

    found = await get_worker(store, "w-1")
    assert found is not None
    assert found.succeeded == 10
