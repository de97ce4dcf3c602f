"""Remote workers as JSON: the same over HTTP and on the command line."""

from collections.abc import Container
from typing import Any

import msgspec

from tidemill.app.errors import NotFound
from tidemill.cluster import list_nodes
from tidemill.store import Store
from tidemill.tasks.remote.roster import RECENT_MS, Worker, each_worker, get_worker


def worker_view(worker: Worker, tokens: Container[str], now: int) -> dict[str, Any]:
    """A worker with its connections, those that have just ended too.

    One whose node is dead has ended with it, though nobody was left to write that down. `state` is that of
    the connection that does most: working, ready, busy, or gone when there is none.
    """
    sessions = []
    for number, seen in worker.sessions.items():
        shown = {"session": number, **msgspec.structs.asdict(seen)}
        shown["tasks"] = list(seen.tasks)
        if seen.gone is None and seen.token not in tokens:
            shown |= {"state": "gone", "reason": "its node is gone"}
        sessions.append(shown)
    states = [one["state"] for one in sessions]
    return {
        "id": worker.id,
        "name": worker.name,
        "state": next((state for state in ("working", "ready", "busy", "new") if state in states), "gone"),
        "succeeded": worker.succeeded,
        "failed": worker.failed,
        "dropped": worker.dropped,
        "first_seen": worker.first_seen,
        "last_seen": max((one["seen"] for one in sessions), default=None),
        "sessions": [one for one in sessions if one["gone"] is None or one["gone"] >= now - RECENT_MS],
    }


async def workers_view(store: Store, *, everybody: bool = False) -> list[dict[str, Any]]:
    """The workers that are connected or have just gone, by name; with `everybody`, all that ever were."""
    tokens = await _tokens(store)
    now = await store.now()
    views = [worker_view(worker, tokens, now) async for worker in each_worker(store)]
    return sorted(
        (view for view in views if everybody or view["sessions"]), key=lambda view: (view["name"], view["id"])
    )


async def one_worker_view(store: Store, worker_id: str) -> dict[str, Any]:
    """That worker. Raises `NotFound`."""
    worker = await get_worker(store, worker_id)
    if worker is None:
        raise NotFound(f"there is no worker {worker_id!r}")
    return worker_view(worker, await _tokens(store), await store.now())


async def _tokens(store: Store) -> frozenset[str]:
    return frozenset(node.token for node in await list_nodes(store) if node.alive)
