"""A node's place in the node list: its own entry and, while it leads, no entries of the dead."""

import asyncio
from collections.abc import Callable

from tidemill.base.errors import TidemillError
from tidemill.base.log import Sparing, get_logger
from tidemill.cluster.duty import Duty
from tidemill.cluster.lease import Grant, Timing
from tidemill.cluster.nodes import LEADER, LEASES, advertise, remove_silent
from tidemill.cluster.reports import remove_reports
from tidemill.cluster.standing import Enrolled, Event
from tidemill.store import Body, Fence, Fenced, Store, Term

log = get_logger("tidemill.listing")

CLEAR_EVERY_LEASES = 12


class Listing:
    """Writes this node's `entry` whenever its lease has a new term, and clears the list while it leads.

    Give `on_event` to the heart, through `call_soon_threadsafe` when the heart has a thread of its own.
    What cannot be written now is tried again.
    """

    def __init__(
        self, store: Store, key: str, entry: Body, fence: Callable[[], Fence], timing: Timing
    ) -> None:
        self._store = store
        self._key = key
        self._entry = entry
        self._fence = fence
        self._timing = timing
        self._duty = Duty("node-list", self._lead)
        self._entering: set[asyncio.Task[None]] = set()

    def on_event(self, event: Event) -> None:
        self._duty.on_event(event)
        if isinstance(event, Enrolled):
            entering = asyncio.create_task(self._enter(event.grant.term), name="node-enters")
            self._entering.add(entering)
            entering.add_done_callback(self._entering.discard)

    async def stop(self) -> None:
        await self._duty.stop()
        for entering in self._entering:
            entering.cancel()
        await asyncio.gather(*self._entering, return_exceptions=True)

    async def _enter(self, term: int) -> None:
        """Write the entry; try until it is there, or until another term needs another."""
        entered, away = False, Sparing(log)
        while not entered:
            try:
                await advertise(self._store, self._key, term, self._entry)
                entered = True
            except Fenced:
                return
            except TidemillError as error:
                away.warn("node.not_advertised", error=str(error), code=error.code)
                await asyncio.sleep(self._timing.beat_s)

    async def _lead(self, grant: Grant) -> None:
        """Say who leads, then remove the entries of the dead, and what they reported."""
        who = {"name": self._entry["name"], "address": self._entry["address"]}
        since = await self._store.now()
        await self._store.replace(LEASES, LEADER, who | {"since": since}, expect=Term(grant.term))
        while True:
            gone = await remove_silent(self._store, self._fence(), self._timing)
            await remove_reports(self._store, gone)
            if gone:
                log.info("nodes.removed", nodes=gone)
            await asyncio.sleep(CLEAR_EVERY_LEASES * self._timing.ttl_s)
