"""A role that does one thing again and again until it is stopped."""

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from tidemill.base.errors import TidemillError
from tidemill.base.log import Sparing, get_logger

log = get_logger("tidemill.service")


class Service(ABC):
    """A loop around `tick`, with a start and a stop.

    `tick` does one round and says how many seconds may pass before the next; `wake` cuts that wait
    short. An error that Tidemill can name is logged, seldom if it comes again and again, and the round
    repeated after `retry_s`; any other error is logged, ends the service, and is raised by `stop`. `stop` may
    be called twice, or before `start`.
    """

    name: str = "service"
    retry_s: float = 1.0

    def __init__(self) -> None:
        self._wake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._trouble = Sparing(log)

    @abstractmethod
    async def tick(self) -> float:
        """Do one round; return the seconds until the next is due."""

    def wake(self) -> None:
        """Let the next round begin now."""
        self._wake.set()

    async def start(self) -> None:
        """Begin to tick, at once. A second call changes nothing."""
        if self._task is None:
            self._stopping = False
            self._task = asyncio.create_task(self.run(), name=self.name)

    async def stop(self) -> None:
        """End after the round under way is broken off; nothing ticks once this has returned."""
        self._stopping = True
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            if not task.cancelled():
                raise

    async def run(self) -> None:
        """Tick until stopped."""
        while not self._stopping:
            delay = await self._guarded_tick()
            try:
                async with asyncio.timeout(max(delay, 0)):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

    async def _guarded_tick(self) -> float:
        try:
            delay = await self.tick()
        except TidemillError as error:
            self._trouble.warn("service.round_failed", service=self.name, error=str(error), code=error.code)
            return self.retry_s
        except Exception as error:
            # Whoever stops the service may do so much later.
            log.exception("service.ended", service=self.name, error=f"{type(error).__name__}: {error}")
            raise
        self._trouble.over()
        return delay

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
