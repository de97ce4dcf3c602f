"""The cluster as it stands in the store, for commands that need no running node."""

from dataclasses import asdict
from typing import Any

import msgspec

from tidemill.cluster import Node, leader, list_nodes
from tidemill.cluster.figures import Alarm, Figures, alarms, leaderless, silence, stuck
from tidemill.cluster.nodes import node_key
from tidemill.cluster.reports import STUCK_AFTER_S, read_reports
from tidemill.store import Store


async def cluster_view(store: Store) -> dict[str, Any]:
    """Who leads, under which term, the node list, and what is alarming.

    `leader` is a token, or None when nobody leads. A node's `figures` are what it last reported, or None; its
    `lease_age_s` is as of now.
    """
    lease = await leader(store)
    holder = lease.holder if lease else None
    listed = await list_nodes(store)
    reports = await read_reports(store, [node_key(node.name) for node in listed])
    now = await store.now()
    nodes = [_node_view(node, reports.get(node_key(node.name)), now, holder) for node in listed]
    name = next((node["name"] for node in nodes if node["leader"]), None)
    raised = [{"node": node["name"], **alarm} for node in nodes for alarm in node.pop("alarms")]
    if lease is None and any(node.alive for node in listed):
        raised.insert(0, {"node": None, **asdict(leaderless())})
    return {
        "leader": holder,
        "leader_name": name,
        "term": lease.term if lease else None,
        "nodes": nodes,
        "alarms": raised,
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
