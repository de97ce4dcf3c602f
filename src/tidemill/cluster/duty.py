"""What runs only while this node leads."""

import asyncio
from collections.abc import Awaitable, Callable

from tidemill.base.errors import TidemillError
from tidemill.base.log import Sparing, get_logger
from tidemill.cluster.errors import LeaseLost
from tidemill.cluster.lease import Grant
from tidemill.cluster.standing import Event, Gained, Lost
from tidemill.store import Fenced

log = get_logger("tidemill.duty")


class Duty:
    """Starts `work` when this node gains the lead and cancels it when the lead is lost.

    Give `on_event` to the heart, through `call_soon_threadsafe` when the heart has a thread of its own.
    Cancelling is the first line; the second is that every write of `work` carries the term, so one
    that is already under way is refused by the store. Work that fails while this node still leads, say
    because the store was away, begins again after `retry_s`; so does work that raises anything else,
    since a leader that does nothing would keep others from doing it.
    """

    def __init__(self, name: str, work: Callable[[Grant], Awaitable[None]], *, retry_s: float = 1.0) -> None:
        self._name = name
        self._work = work
        self._retry_s = retry_s
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
        trouble = Sparing(log)
        done = False
        while not done:
            try:
                await self._work(grant)
                done = True
            except (LeaseLost, Fenced):
                return
            except TidemillError as error:
                trouble.warn(
                    "duty.failed", duty=self._name, term=grant.term, code=error.code, error=str(error)
                )
                await asyncio.sleep(self._retry_s)
            except Exception:
                log.exception("duty.raised", duty=self._name, term=grant.term)
                await asyncio.sleep(self._retry_s)
