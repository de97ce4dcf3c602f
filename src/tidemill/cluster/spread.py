"""Who should try which partition. Pure.

Nobody hands partitions out. Every node sees who holds how many, and takes what falls to it if each goes
to the node with the least to do; it begins at its own place among the free ones, so that two that look
at the same moment do not reach for the same.
"""

import heapq
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from tidemill.cluster.nodes import Node
from tidemill.cluster.partitions import OUTSTANDING, Partition


class Peer(Struct, frozen=True):
    """A node as those see it who share partitions with it: room for `slots`, of which `load` are in use."""

    token: str
    slots: int
    load: int


def crew(
    nodes: Sequence[Node], handlers: Collection[str], partitions: Sequence[Partition], now: int
) -> list[Peer]:
    """The nodes that are alive and run any of these handlers, in the list's order, with what each holds."""
    loads = Counter(found.holder for found in partitions if found.held(now))
    return [
        Peer(node.token, node.slots, loads[node.token])
        for node in nodes
        if node.alive and any(name in handlers for name in node.handlers)
    ]


def share(free: int, peers: Sequence[Peer], me: str) -> int:
    """How many of `free` partitions fall to `me` if each goes to the peer with the least to do."""
    room = [(peer.load, at) for at, peer in enumerate(peers) if peer.load < peer.slots]
    heapq.heapify(room)
    mine = 0
    for _ in range(free):
        if not room:
            break
        load, at = heapq.heappop(room)
        mine += peers[at].token == me
        if load + 1 < peers[at].slots:
            heapq.heappush(room, (load + 1, at))
    return mine


def choose(
    free: Sequence[Partition], peers: Sequence[Peer], me: str, spare: int, overdue: Collection[str] = ()
) -> list[Partition]:
    """Which of the free partitions `me` should try, the first one first; at most `spare`.

    Beside its share it may have those that are `overdue`, and before it: whoever they fell to does not take
    them, be it that it is full, hangs, or runs other handlers. In `free`, those come first that wait longest.
    """
    places = [at for at, peer in enumerate(peers) if peer.token == me]
    if not places:
        return []
    begin = places[0] * len(free) // len(peers)
    ordered = [*free[begin:], *free[:begin]]
    late = [found for found in free if found.key in overdue]
    mine = [found for found in ordered[: share(len(free), peers, me)] if found.key not in overdue]
    return [*late, *mine][: max(spare, 0)]


def waiting(free: Sequence[Partition], before: Mapping[str, float], now_s: float) -> dict[str, float]:
    """Since when each of the free partitions has been seen free, on the looker's own clock."""
    return {found.key: before.get(found.key, now_s) for found in free}


def next_look(partitions: Sequence[Partition], me: str, now: int, at_most_s: float) -> float:
    """Seconds until time alone may have made a partition free: a lease runs out, or a pause ends."""
    moments = [
        max(found.expire, found.not_before) - now
        for found in partitions
        if found.state == OUTSTANDING and not found.free(now) and not (found.held(now) and found.holder == me)
    ]
    return min([at_most_s, *(moment / 1000 for moment in moments)])
