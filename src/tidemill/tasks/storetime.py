"""The store's time without asking for it each time."""

from tidemill.base.clock import Clock, boot_clock
from tidemill.store import Store

ASK_S = 60.0


class StoreTime:
    """What the store's clock shows, to within the time that asking takes.

    It is asked once a minute, and reckoned from this process's own clock in between. For instants that people
    read and for the order of arrival; what must not be wrong is compared by the store itself.
    """

    def __init__(self, store: Store, clock: Clock = boot_clock) -> None:
        self._store = store
        self.clock = clock
        self._known: tuple[int, float] | None = None

    async def now(self) -> int:
        """The store's milliseconds."""
        known = self._known
        if known is None or self.clock() - known[1] > ASK_S:
            sent = self.clock()
            asked = await self._store.now()
            known = self._known = (asked, (sent + self.clock()) / 2)
        return known[0] + round((self.clock() - known[1]) * 1000)
