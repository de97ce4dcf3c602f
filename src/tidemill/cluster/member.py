"""A process that takes part: it has a name among the nodes, beats, follows, and leads when it falls to it."""

import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from msgspec import Struct

from tidemill.base.ids import new_token
from tidemill.cluster.duty import Duty
from tidemill.cluster.follower import TIMING, Follower
from tidemill.cluster.heart_thread import HeartThread
from tidemill.cluster.lease import Timing
from tidemill.cluster.listing import Listing
from tidemill.cluster.nodes import entry_of, join
from tidemill.cluster.partitioner import Partitioner
from tidemill.cluster.reports import Reporter
from tidemill.cluster.standing import Event
from tidemill.cluster.work import Handler
from tidemill.store import BadRequest, Fence, Store, open_store

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
    if url.startswith("memory:"):
        raise BadRequest("a member's heart has a connection of its own, which cannot share a store in memory")
    beat = timing or Timing()
    token = new_token()
    async with open_store(url) as store:
        key = await join(store, name, os.getpid(), token, f"{socket.gethostname()}:{os.getpid()}", beat)

        def on_event(event: Event) -> None:
            listing.on_event(event)
            for duty in led:
                duty.on_event(event)

        heart = HeartThread(url, token, key, beat, on_event)
        entry = entry_of(key, token, address="", slots=slots, started=await store.now(), handlers=handlers)
        listing = Listing(store, key, entry, heart.fence, beat)
        led = [Duty(duty.handler, duty.lead) for duty in duties(store, heart.fence)]
        follower = Follower(store, token, handlers, slots, timing=partition_timing)
        try:
            await heart.start()
            async with Reporter(store, heart, beat, key=key), follower:
                yield Member(token, store, heart, follower)
        finally:
            for duty in led:
                await duty.stop()
            await listing.stop()
            await heart.stop()
