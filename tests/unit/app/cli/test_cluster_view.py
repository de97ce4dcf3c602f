"""What `cluster show` makes of the store."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tidemill.app.cli.cluster import NODE_COLUMNS, _print
from tidemill.app.cli.cluster_view import cluster_view, partitions_view
from tidemill.cluster import LEADER, LEASES
from tidemill.cluster.figures import Counts, Figures
from tidemill.cluster.nodes import advertise
from tidemill.cluster.partitions import FAILED, PARTITIONS, outstanding
from tidemill.cluster.reports import REPORTS
from tidemill.store import Body, Store
from tidemill.store.backends.memory import MemoryBackend, MemoryServer

NOW = 1_000_000


class World:
    """A store whose clock the test sets."""

    def __init__(self) -> None:
        self.now = NOW
        self.store = Store(MemoryBackend(MemoryServer(lambda: self.now), "0.1.0"))

    async def enter(self, name: str, figures: Figures | None = None, *, leads: bool = False) -> None:
        """A node that renewed its lease just now."""
        keys = [f"node:{name}", *([LEADER] if leads else [])]
        leases = await self.store.hold(LEASES, keys, f"token-{name}", 5000)
        await advertise(self.store, keys[0], leases[keys[0]].term, {"address": name, "slots": 1})
        if figures is not None:
            await self.store.create(REPORTS, keys[0], msgspec.to_builtins(figures))


def figures(**changes: Any) -> Figures:
    recent = Counts(renewals=48, answers_s=0.48)
    total = Counts(renewals=960, missed=3, late=2, calls=1100, conflicts=7, unknown=1)
    well = Figures(NOW, 5.0, 0.3, 0.0123, 0.001, 60.0, total, recent)
    return replace(well, **changes)


async def test_each_node_is_shown_with_what_it_reported_and_the_age_of_its_lease_now() -> None:
    world = World()
    await world.enter("a", figures(), leads=True)
    await world.enter("b")
    world.now += 700
    seen = await cluster_view(world.store)
    [a, b] = seen["nodes"]

    assert (a["lease_age_s"], a["figures"]["total"]["conflicts"], a["figures"]["skew_s"]) == (0.7, 7, 0.0123)
    assert round(a["figures"]["answer_s"], 6) == 0.01
    assert (b["lease_age_s"], b["figures"]) == (None, None)
    assert (seen["leader_name"], seen["alarms"]) == ("a", [])
    assert json.dumps(seen)


async def test_what_is_alarming_is_told_with_the_name_of_the_node() -> None:
    world = World()
    await world.enter("a", figures(skew_s=-7.0), leads=True)
    await world.enter("b", figures())
    world.now += 3000
    alarms = (await cluster_view(world.store))["alarms"]

    assert [(alarm["node"], alarm["code"]) for alarm in alarms] == [
        ("a", "lease.old"),
        ("a", "clock.skew"),
        ("b", "lease.old"),
    ]


async def test_a_node_that_is_silent_is_told_and_one_that_left_is_not() -> None:
    world = World()
    await world.enter("dead", figures(skew_s=9.0))
    await world.enter("gone", figures())
    lease = (await world.store.hold(LEASES, ["node:gone"], "token-gone", 5000))["node:gone"]
    await world.store.release(LEASES, {"node:gone": lease.term})
    world.now += 12_000
    seen = await cluster_view(world.store)

    assert [(alarm["node"], alarm["message"]) for alarm in seen["alarms"]] == [
        ("dead", "it has not been heard of for 7 s")
    ]


async def test_a_node_that_beats_but_does_not_report_is_told() -> None:
    world = World()
    await world.enter("a", figures(), leads=True)
    world.now += 200_000
    await world.enter("a", leads=True)

    assert [alarm["code"] for alarm in (await cluster_view(world.store))["alarms"]] == ["node.stuck"]


async def test_nodes_without_a_leader_are_told() -> None:
    world = World()
    await world.enter("a", figures())

    assert [(alarm["node"], alarm["code"]) for alarm in (await cluster_view(world.store))["alarms"]] == [
        (None, "cluster.leaderless")
    ]


async def test_people_read_tables_of_the_cluster_its_nodes_and_the_alarms(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = World()
    await world.enter("a", figures(skew_s=2.0), leads=True)
    await world.enter("b")
    _print(await cluster_view(world.store) | {"store": "memory:"})
    cluster, nodes, alarms = capsys.readouterr().out.split("\n\n")

    assert cluster.splitlines()[1].split("\t")[0] == "a"
    assert nodes.splitlines() == [
        "\t".join(NODE_COLUMNS),
        "a\tyes\t0.0\t10.0\t2000\t960\t3\t2\t1100\t7\t1\t0",
        "b\tyes\t-\t-\t-\t-\t-\t-\t-\t-\t-\t0",
    ]
    assert alarms.splitlines()[1].startswith("a\tclock.skew\tits clock is 2.0 s behind the store's\t")


async def with_partitions(world: World) -> None:
    """Of two in progress, one is on node a, the other held by a node that is not in the list any more."""
    await world.enter("a", figures(), leads=True)
    for name in ("free", "mine", "theirs", "broken", "paused"):
        await world.store.create(PARTITIONS, f"h/{name}", outstanding("h", b"task"))
    await world.store.hold(PARTITIONS, ["h/mine"], "token-a", 30_000)
    await world.store.hold(PARTITIONS, ["h/theirs"], "token-gone", 30_000)
    changes: dict[str, Body] = {
        "broken": {"state": FAILED, "attempt": 5, "error": "ValueError: no"},
        "paused": {"attempt": 1, "not_before": NOW + 2000},
    }
    for name, change in changes.items():
        found = await world.store.get(PARTITIONS, f"h/{name}")
        assert found is not None
        await world.store.replace(PARTITIONS, found.key, {**found.body, **change}, expect=found.revision)


async def test_partitions_are_counted_by_handler_and_by_node_and_failed_ones_are_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = World()
    await with_partitions(world)
    seen = await cluster_view(world.store)
    _print(seen | {"store": "memory:"})
    _, nodes, partitions, alarms = capsys.readouterr().out.split("\n\n")

    assert seen["partitions"][0]["held"] == {"token-a": 1, "token-gone": 1}
    assert nodes.splitlines()[1].split("\t")[-1] == "1"
    assert partitions.splitlines() == [
        "handler\toutstanding\tin progress\tstopping\tdone\tfailed",
        "h\t2\t2\t0\t0\t1",
    ]
    assert alarms.splitlines()[1].startswith("-\tpartition.failed\t1 partition has failed")
    assert json.dumps(seen)


async def test_each_partition_is_shown_with_its_node_and_what_it_waits_for() -> None:
    world = World()
    await with_partitions(world)
    seen = {one["key"].removeprefix("h/"): one for one in await partitions_view(world.store, "h")}

    assert [(seen["mine"][name]) for name in ("state", "node", "left_s")] == ["in progress", "a", 30.0]
    assert [(seen["theirs"][name]) for name in ("node", "holder")] == [None, "token-gone"]
    assert [(seen["broken"][name]) for name in ("state", "error", "pause_s")] == [
        "failed",
        "ValueError: no",
        None,
    ]
    assert [(seen["paused"][name]) for name in ("state", "attempt", "pause_s")] == ["outstanding", 1, 2.0]
    assert await partitions_view(world.store, "other") == []
    assert json.dumps(seen)
