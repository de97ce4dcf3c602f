"""The cluster as it stands in the store, for commands that need no running node."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import msgspec

from tidemill.cluster import Node, leader, list_nodes
from tidemill.cluster.figures import Alarm, Figures, alarms, leaderless, silence, stuck
from tidemill.cluster.nodes import node_key
from tidemill.cluster.partitions import OUTSTANDING, Partition, list_partitions, read_leases
from tidemill.cluster.reports import STUCK_AFTER_S, read_reports
from tidemill.cluster.tally import failures, held_in_all, tallies
from tidemill.store import Store


async def cluster_view(store: Store) -> dict[str, Any]:
    """Who leads, under which term, the node list, how far partitions are, and what is alarming.

    `leader` is a token, or None when nobody leads. A node's `figures` are what it last reported, or None; its
    `lease_age_s` is as of now, and `partitions` is how many it holds.
    """
    lease = await leader(store)
    holder = lease.holder if lease else None
    listed = await list_nodes(store)
    reports = await read_reports(store, [node_key(node.name) for node in listed])
    leases, now = await read_leases(store), await store.now()
    counted = tallies(leases, now)
    nodes = [_node_view(node, reports.get(node_key(node.name)), now, holder) for node in listed]
    name = next((node["name"] for node in nodes if node["leader"]), None)
    for node in nodes:
        node["partitions"] = held_in_all(counted, node["token"])
    raised = [{"node": node["name"], **alarm} for node in nodes for alarm in node.pop("alarms")]
    raised += [{"node": None, **asdict(alarm)} for alarm in failures(counted)]
    if lease is None and any(node.alive for node in listed):
        raised.insert(0, {"node": None, **asdict(leaderless())})
    return {
        "leader": holder,
        "leader_name": name,
        "term": lease.term if lease else None,
        "nodes": nodes,
        "partitions": [msgspec.to_builtins(tally) for tally in counted],
        "alarms": raised,
    }


async def partitions_view(store: Store, handler: str | None = None) -> list[dict[str, Any]]:
    """All partitions, or those of one handler, each with the name of the node that holds it now.

    `left_s` is how long its lease runs if it is not renewed, `pause_s` how long it is not to be tried again;
    each None where there is nothing to wait for.
    """
    found = await list_partitions(store, handler)
    names = {node.token: node.name for node in await list_nodes(store)}
    now = await store.now()
    return [_partition_view(partition, names, now) for partition in found]


def _partition_view(partition: Partition, names: Mapping[str, str], now: int) -> dict[str, Any]:
    held, paused = partition.held(now), partition.state == OUTSTANDING and partition.not_before > now
    return {
        **msgspec.to_builtins(partition),
        "state": partition.state_at(now),
        "holder": partition.holder if held else None,
        "node": names.get(partition.holder or "") if held else None,
        "left_s": round((partition.expire - now) / 1000, 1) if held else None,
        "pause_s": round((partition.not_before - now) / 1000, 1) if paused else None,
    }


def _node_view(node: Node, figures: Figures | None, now: int, leader_token: str | None) -> dict[str, Any]:
    if figures is not None and node.alive:
        # The lease is newer than the report, and tells how old it is by itself.
        figures = msgspec.structs.replace(figures, age_s=figures.ttl_s - (node.expire - now) / 1000)
    return {
        **msgspec.to_builtins(node),
        "leader": node.token == leader_token,
        "lease_age_s": round(figures.age_s, 3) if figures is not None and node.alive else None,
        "figures": _shown(figures) if figures is not None else None,
        "alarms": [asdict(alarm) for alarm in judge(node, figures, now)],
    }


def _shown(figures: Figures) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(figures)
    del shown["age_s"]
    return shown | {"answer_s": figures.answer_s}


def judge(node: Node, figures: Figures | None, now: int) -> list[Alarm]:
    """What is alarming about a node. One that left in order, which let go of its lease, is not."""
    if not node.alive:
        return [silence((now - node.expire) / 1000)] if node.expire else []
    if figures is None:
        return []
    unreported_s = (now - figures.at) / 1000
    return alarms(figures) if unreported_s <= STUCK_AFTER_S else [stuck(unreported_s)]
