"""A process that takes part: it has a name among the nodes, beats, follows, and leads when it falls to it."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from msgspec import Struct

from tidemill.base.errors import TidemillError
from tidemill.base.ids import new_token
from tidemill.base.log import get_logger
from tidemill.base.version import __version__
from tidemill.cluster.duty import Duty
from tidemill.cluster.follower import TIMING, Follower
from tidemill.cluster.heart_thread import HeartThread
from tidemill.cluster.lease import Timing
from tidemill.cluster.nodes import advertise, join
from tidemill.cluster.partitioner import Partitioner
from tidemill.cluster.standing import Enrolled, Event
from tidemill.cluster.work import Handler
from tidemill.store import Fence, Fenced, Store, open_store

log = get_logger("tidemill.member")

Duties: TypeAlias = Callable[[Store, Callable[[], Fence]], Sequence[Partitioner]]
"""Makes what a member does while it leads, from the store and the leader's fence."""


class Member(Struct, frozen=True):
    """What a member has: its token in the node list, its store, its heart, and what it works on."""

    token: str
    store: Store
    heart: HeartThread
    follower: Follower


@asynccontextmanager
async def taking_part(
    url: str,
    name: str,
    handlers: Mapping[str, Handler],
    *,
    slots: int = 4,
    duties: Duties = lambda _store, _fence: [],
    timing: Timing | None = None,
    partition_timing: Timing = TIMING,
) -> AsyncIterator[Member]:
    """A node for as long as the block runs: its handlers are run here, its duties while it leads.

    At the end it lets go of everything, so that others go on at once; when the process dies, they do so
    once its leases have run out.
    """
    beat = timing or Timing()
    token = new_token()
    async with open_store(url) as store:
        key = await join(store, name, os.getpid(), token, f"{socket.gethostname()}:{os.getpid()}", beat)
        entries: set[asyncio.Task[None]] = set()

        def on_event(event: Event) -> None:
            for duty in led:
                duty.on_event(event)
            if isinstance(event, Enrolled):
                entry = asyncio.create_task(_enter(store, key, event.grant.term, slots, beat))
                entries.add(entry)
                entry.add_done_callback(entries.discard)

        heart = HeartThread(url, token, key, beat, on_event)
        led = [Duty(duty.handler, duty.lead) for duty in duties(store, heart.fence)]
        follower = Follower(store, token, handlers, slots, timing=partition_timing)
        try:
            await heart.start()
            async with follower:
                yield Member(token, store, heart, follower)
        finally:
            for duty in led:
                await duty.stop()
            for entry in entries:
                entry.cancel()
            await heart.stop()


async def _enter(store: Store, key: str, term: int, slots: int, timing: Timing) -> None:
    """Write the node's entry; try until it is there, or until another term needs another."""
    body = {"address": "", "slots": slots, "release": __version__, "pid": os.getpid()}
    entered = False
    while not entered:
        try:
            await advertise(store, key, term, body)
            entered = True
        except Fenced:
            return
        except TidemillError as error:
            log.warning("member.not_entered", error=str(error), code=error.code)
            await asyncio.sleep(timing.beat_s)
