"""What a node claims next, and how much of it. Pure."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tidemill.store import Cap, Claim, eq, le, one_of
from tidemill.tasks.queue import Queue
from tidemill.tasks.status import CLAIMED, LIVE, QUEUED
from tidemill.tasks.task import DELAYED


class Seat(Struct, frozen=True):
    """Who claims: a node's name, its token, and for how long its leases run."""

    node: str
    token: str
    ttl_ms: int


class Choice(Struct, frozen=True):
    """Which queues a node serves: all, only the active ones, or all but the ignored ones."""

    active: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def takes(self, name: str) -> bool:
        return name in self.active if self.active else name not in self.ignored


def served(queues: Iterable[Queue], node: str, choice: Choice) -> list[Queue]:
    """The queues whose tasks this node may claim now; whether it knows their plugins is another matter."""
    return [
        queue
        for queue in queues
        if queue.kind != "remote"
        and not queue.paused
        and queue.threads != 0
        and queue.runs_on(node)
        and choice.takes(queue.name)
    ]


def claim_of(queue: Queue, seat: Seat, n: int, maxthreads: int | None, rank: int | None = None) -> Claim:
    """The claim for up to `n` tasks of the queue, within the cluster's bound and the node's.

    For `lifo` the lowest rank must be known: within one rank the newest come first.
    """
    due = le("rank", DELAYED - 1) if rank is None else eq("rank", rank)
    return Claim(
        (eq("queue", queue.name), eq("status", QUEUED), due),
        seat.token,
        seat.ttl_ms,
        n,
        sort=("rank", "turn") if rank is None else ("-turn",),
        set=(("status", CLAIMED), ("node", seat.node)),
        caps=_caps(queue, seat.node, maxthreads),
    )


def _caps(queue: Queue, node: str, maxthreads: int | None) -> tuple[Cap, ...]:
    live = one_of("status", LIVE)
    caps: tuple[Cap, ...] = ()
    if queue.threads is not None:
        caps += (Cap((eq("queue", queue.name), live), queue.threads),)
    if maxthreads is not None:
        caps += (Cap((live, eq("node", node)), maxthreads),)
    return caps


def in_turn(queues: Sequence[Queue], start: int) -> list[Queue]:
    """The queues, beginning with another one each time, so that none waits for ever behind the others."""
    if not queues:
        return []
    first = start % len(queues)
    return [*queues[first:], *queues[:first]]
