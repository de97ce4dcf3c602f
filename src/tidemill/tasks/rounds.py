"""Work that goes on: the leader's, in rounds for which there is cause, and what must not end by an error."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tidemill.base.log import get_logger
from tidemill.store import Collection, Store

log = get_logger("tidemill.rounds")

PAUSE_S = 0.2
AGAIN_S = 1.0


async def rounds(
    store: Store,
    collection: Collection,
    do_round: Callable[[], Awaitable[float]],
    *,
    about: Sequence[str] = (),
    pause_s: float = PAUSE_S,
) -> None:
    """Do a round now, whenever the collection has changed, and after as many seconds as the last one said.

    It goes on until it is cancelled, or a round raises. In between it asks nothing of the store. `pause_s` is
    the least time from one round that changes cause to the next, however much is going on.
    """
    async with store.watch(collection, *about, poll_s=3600) as watch:
        while True:
            rest_s = await do_round()
            await asyncio.sleep(min(pause_s, rest_s))
            try:
                async with asyncio.timeout(max(rest_s - pause_s, 0.0)):
                    await watch.wait()
            except TimeoutError:
                pass


async def lasting(work: Callable[[], Awaitable[None]]) -> None:
    """Do the work until cancelled; and again, if it should raise what nobody thought of."""
    while True:
        try:
            await work()
        except Exception as error:
            log.exception("work.raised", error=f"{type(error).__name__}: {error}")
            await asyncio.sleep(AGAIN_S)
