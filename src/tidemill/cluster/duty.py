"""What runs only while this node leads."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from tidemill.base.errors import TidemillError
from tidemill.cluster.lease import Grant
from tidemill.cluster.standing import Event, Gained, Lost

log = structlog.get_logger("tidemill.duty")


class Duty:
    """Starts `work` when this node gains the lead and cancels it when the lead is lost.

    Give `on_event` to the heart, through `call_soon_threadsafe` when the heart has a thread of its own.
    Cancelling is the first line; the second is that every write of `work` carries the term, so one
    that is already under way is refused by the store.
    """

    def __init__(self, name: str, work: Callable[[Grant], Awaitable[None]]) -> None:
        self._name = name
        self._work = work
        self._task: asyncio.Task[None] | None = None

    def on_event(self, event: Event) -> None:
        match event:
            case Gained(grant):
                self._end()
                self._task = asyncio.create_task(self._run(grant), name=f"duty-{self._name}")
            case Lost():
                self._end()
            case _:
                pass

    async def stop(self) -> None:
        task = self._task
        self._end()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    def _end(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def _run(self, grant: Grant) -> None:
        try:
            await self._work(grant)
        except TidemillError as error:
            # Another beat may find this node still leading; the duty begins again with the next term.
            log.warning("duty.ended", duty=self._name, term=grant.term, code=error.code, error=str(error))
