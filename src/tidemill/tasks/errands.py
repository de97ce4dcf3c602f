"""Small work that goes on beside: begun at once, awaited by nobody, and ended when the node leaves."""

import asyncio
from collections.abc import Awaitable

from tidemill.base.errors import TidemillError
from tidemill.base.log import get_logger

log = get_logger("tidemill.errands")


class Errands:
    """A crowd of small work. An error that Tidemill can name is logged; a worker that is gone is none."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def begin(self, work: Awaitable[None]) -> None:
        task = asyncio.create_task(_guarded(work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def stop(self) -> None:
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _guarded(work: Awaitable[None]) -> None:
    try:
        await work
    except ConnectionError:
        pass  # its link says so
    except TidemillError as error:
        log.warning("errand.failed", error=str(error), code=error.code)
