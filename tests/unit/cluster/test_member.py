import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import pytest

from tidemill.cluster import LEASES, Timing, Windowed, Work, list_nodes, list_partitions, taking_part
from tidemill.cluster.partitioner import Partitioner
from tidemill.store import BadRequest, Fence, Store, open_store

SHORT = Timing(2.0)


class Ten:
    """Ten tasks, and the books about them."""

    def __init__(self) -> None:
        self.left = [str(at) for at in range(10)]
        self.empty = asyncio.Event()

    async def more(self, room: int, known: Collection[str]) -> Mapping[str, bytes]:
        return dict.fromkeys([name for name in self.left if name not in known][:room], b"")

    async def finished(self, names: Sequence[str]) -> None:
        self.left = [name for name in self.left if name not in names]
        if not self.left:
            self.empty.set()


def ten(source: Ten) -> Callable[[Store, Callable[[], Fence]], Sequence[Partitioner]]:
    return lambda store, fence: [Windowed(store, "h", fence, source)]


async def test_whoever_leads_creates_and_all_take_part(tmp_path: Path) -> None:
    url, source = f"sqlite:///{tmp_path}/store.db", Ten()
    done: list[str] = []

    async def handle(work: Work) -> None:
        done.append(work.key)

    async with (
        taking_part(url, "a", {"h": handle}, duties=ten(source), timing=SHORT),
        taking_part(url, "b", {"h": handle}, duties=ten(source), timing=SHORT),
    ):
        await source.empty.wait()

    assert sorted(done) == [f"h/{at}" for at in range(10)]


async def test_a_member_that_leaves_takes_its_name_and_its_work_off_the_lists(tmp_path: Path) -> None:
    url, source, begun = f"sqlite:///{tmp_path}/store.db", Ten(), asyncio.Event()

    async def handle(work: Work) -> None:
        begun.set()
        await work.wait_stop()

    async with taking_part(url, "b", {}, duties=ten(source), timing=SHORT) as stays:
        async with taking_part(url, "a", {"h": handle}, duties=ten(source), timing=SHORT) as leaves:
            await begun.wait()
        now = await stays.store.now()

        assert all(found.free(now) for found in await list_partitions(stays.store))
        assert [node.token for node in await list_nodes(stays.store) if node.alive] == [stays.token]
        assert leaves.token != stays.token


async def test_members_alone_clear_the_dead_from_the_list(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with open_store(url) as store:
        lease = (await store.hold(LEASES, ["node:dead"], "dead", 1))["node:dead"]
        await store.release(LEASES, {"node:dead": lease.term})
        async with taking_part(url, "a", {"h": nothing}, slots=2, timing=SHORT) as alone:
            async with store.watch(LEASES, poll_s=0.05) as watch:
                while (await store.get(LEASES, "node:dead")) is not None or not await list_nodes(store):
                    await watch.wait()
            [node] = await list_nodes(store)

    assert (node.token, node.slots, node.handlers) == (alone.token, 2, ("h",))


async def test_a_store_in_memory_is_refused() -> None:
    with pytest.raises(BadRequest):
        async with taking_part("memory:shared", "a", {}):
            pass


async def nothing(work: Work) -> None:
    del work
