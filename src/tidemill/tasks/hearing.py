"""How a node hears of what others write."""

import asyncio
from collections.abc import Callable, Sequence

from tidemill.store import Collection, Store, StoreError

ANYWAY_S = 120.0
"""After how long without a word one is taken as heard: hints may be lost."""

Told = Callable[[], None]


class Hearing:
    """Calls whoever wants to be told of changes.

    `gap_s` is the least time from one call to the next, however much is going on; `again_s` the pause after
    the store was away.
    """

    def __init__(self, store: Store, *, gap_s: Callable[[], float], again_s: float) -> None:
        self._store = store
        self._gap_s = gap_s
        self._again_s = again_s

    async def hear(
        self, collection: Collection, about: Sequence[str], wanted: asyncio.Event, told: Told
    ) -> None:
        """Call `told` of each change while that is `wanted`, until cancelled.

        The first call is at once: what changed before is told by nobody.
        """
        while True:
            await wanted.wait()
            try:
                async with self._store.watch(collection, *about, poll_s=ANYWAY_S) as watch:
                    watch.set()
                    while wanted.is_set():
                        await watch.wait()
                        told()
                        await asyncio.sleep(self._gap_s())
            except StoreError:
                await asyncio.sleep(self._again_s)
