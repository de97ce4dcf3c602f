"""Waiting for a change in any of several collections."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from tidemill.store import Collection, Store
from tidemill.store.watch import Watch

NEVER_S = 3600.0


@asynccontextmanager
async def watching(store: Store, *collections: Collection) -> AsyncIterator[Sequence[Watch]]:
    """A watch on each of the collections. What changed before is not told."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(store.watch(one, poll_s=NEVER_S)) for one in collections]


async def wait_any(watches: Sequence[Watch], timeout_s: float | None) -> None:
    """Return when one of them is told of a change, or when the time is up. A hint, as every watch is."""
    waits = [asyncio.create_task(watch.wait()) for watch in watches]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
