"""A heart on a thread and a store connection of its own, with nothing else on either."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tidemill.base.bridge import LoopThread
from tidemill.base.service import Service
from tidemill.cluster.heart import Beats, Heart
from tidemill.cluster.lease import Timing
from tidemill.cluster.standing import Event, Standing
from tidemill.store import Fence, Statistics, Store, open_store

T = TypeVar("T")


class HeartThread:
    """Starts and stops a heart from another event loop, and hands that loop its events.

    Everything but `start` and `stop` may be called from any thread and does not wait.
    """

    def __init__(
        self, url: str, token: str, node_key: str, timing: Timing, listener: Callable[[Event], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = LoopThread("tidemill-heart")
        self._store = open_store(url, connections=1, timeout_s=timing.trust_s)
        self._parts = (token, node_key, timing)
        self._listener = listener
        self._heart: Heart | None = None
        self._beside: list[Service] = []

    async def start(self) -> None:
        """Connect and beat. Raises what the store raises when it cannot be reached."""
        self._thread.start()
        await self._there(self._start())

    async def stop(self) -> None:
        """Let go of the leases and end the thread. A second call changes nothing."""
        if not self._thread.loop.is_closed():
            await self._there(self._stop())
            await asyncio.to_thread(self._thread.stop)

    def on_loop(self, call: Callable[[T], None]) -> Callable[[T], None]:
        """The call as the heart's thread may make it: it happens on the loop of whoever made this."""

        def there(value: T) -> None:
            self._loop.call_soon_threadsafe(call, value)

        return there

    async def run_beside(self, make: Callable[[Store], Service]) -> None:
        """Run one more service that renews leases on the heart's thread and connection, until `stop`."""
        await self._there(self._run_beside(make))

    @property
    def standing(self) -> Standing:
        return self._beating().standing

    def fence(self) -> Fence:
        """What every write of the leader carries. Raises `NotLeader` when this node may not act."""
        return self._beating().fence()

    def statistics(self) -> Beats:
        return self._beating().statistics()

    def store_statistics(self) -> Statistics:
        return self._store.statistics()

    def _beating(self) -> Heart:
        if self._heart is None:
            raise RuntimeError("the heart has not been started")
        return self._heart

    async def _start(self) -> None:
        token, node_key, timing = self._parts
        await self._store.open()
        self._heart = Heart(self._store, token, node_key, timing=timing, listener=self._tell, wall=time.time)
        await self._heart.start()

    async def _run_beside(self, make: Callable[[Store], Service]) -> None:
        service = make(self._store)
        self._beside.append(service)
        await service.start()

    async def _stop(self) -> None:
        for service in self._beside:
            await service.stop()
        if self._heart is not None:
            await self._heart.stop()
        await self._store.close()

    def _tell(self, event: Event) -> None:
        self._loop.call_soon_threadsafe(self._listener, event)

    async def _there(self, work: Coroutine[Any, Any, None]) -> None:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._thread.loop))
