"""What a node believes about itself and the leader, and how each beat changes it. Pure.

    follower ── the answer grants the leader lease ──► leader
    leader ──── another holds it, or its term moved, or it was not renewed in time ──► follower

Two leaderships with different terms are different: one that is lost and won again within one beat is
reported as lost, then gained.
"""

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tidemill.cluster.lease import Grant, Timing, granted
from tidemill.store import Lease


class Standing(Struct, frozen=True):
    """One node's view after its last beat. `leadership` is its grant, if it leads."""

    token: str
    node_key: str
    leader_key: str
    node: Grant | None = None
    leadership: Grant | None = None
    leader: str | None = None
    term: int = 0
    leader_until: float = 0.0
    """When the leader lease runs out, on this node's clock, if it is not renewed before."""


class Gained(Struct, frozen=True):
    """This node leads now."""

    grant: Grant


class Lost(Struct, frozen=True):
    """This node led under this term, and may not act any more."""

    term: int


class Moved(Struct, frozen=True):
    """The store knows another leader than before; None while there is none."""

    leader: str | None
    term: int


class Enrolled(Struct, frozen=True):
    """This node has its own lease under a new term, so its entry in the node list must be written."""

    grant: Grant


Event: TypeAlias = Gained | Lost | Moved | Enrolled


def observe(
    before: Standing, leases: Mapping[str, Lease], sent: float, answered: float, timing: Timing
) -> tuple[Standing, list[Event]]:
    """The standing after an answer that was asked for at `sent` and came at `answered`."""
    seen = leases.get(before.leader_key)
    node = granted(leases.get(before.node_key), before.token, sent, timing)
    leadership = granted(seen, before.token, sent, timing)
    alive = seen is not None and seen.expire > seen.now
    left_s = (seen.expire - seen.now) / 1000 if seen is not None and alive else 0.0
    after = replace(
        before,
        node=node,
        leadership=leadership,
        leader=seen.holder if seen is not None and alive else None,
        term=seen.term if seen is not None else before.term,
        leader_until=answered + left_s,
    )
    # An answer may come so late that what it grants has already run out.
    return _with_events(before, _trusted(after, answered))


def lapse(before: Standing, now: float) -> tuple[Standing, list[Event]]:
    """The standing once time has passed without an answer."""
    return _with_events(before, _trusted(before, now))


def next_beat(standing: Standing, now: float, spread: float, timing: Timing) -> float:
    """Seconds until the next beat: the renewal, or the moment the leader lease runs out.

    `spread` is this node's share, from 0 to 1, of the time over which attempts are spread.
    """
    renewal = timing.beat_s
    if standing.leadership is not None:
        return renewal
    vacant_in = standing.leader_until - now + spread * timing.spread_s
    return min(renewal, max(vacant_in, 0.0))


def _trusted(standing: Standing, now: float) -> Standing:
    node, leadership = standing.node, standing.leadership
    return replace(
        standing,
        node=node if node is not None and node.trusted(now) else None,
        leadership=leadership if leadership is not None and leadership.trusted(now) else None,
    )


def _with_events(before: Standing, after: Standing) -> tuple[Standing, list[Event]]:
    events: list[Event] = []
    was, now_is = before.leadership, after.leadership
    if was is not None and (now_is is None or now_is.term != was.term):
        events.append(Lost(was.term))
    if now_is is not None and (was is None or now_is.term != was.term):
        events.append(Gained(now_is))
    if (after.leader, after.term) != (before.leader, before.term):
        events.append(Moved(after.leader, after.term))
    if after.node is not None and (before.node is None or before.node.term != after.node.term):
        events.append(Enrolled(after.node))
    return after, events
