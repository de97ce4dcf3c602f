"""`tidemill.Lock`: mutual exclusion among processes that share nothing but a store."""

import asyncio
import threading
from types import TracebackType
from typing import Self

from tidemill.base.bridge import LoopThread
from tidemill.cluster import Holding, LeaseLost, Timing
from tidemill.store import Fence, Store, StoreError, open_store


class Lock:
    """A lock in the store at `url`, held by at most one of all who name it.

        with tidemill.Lock("sqlite:///jobs.db", "nightly-report") as lock:
            publish(report, fence=lock.fence)

    It is a lease of `ttl_s` seconds: while it is held, a thread of this process renews it, and when
    the process dies another can have it within `ttl_s`. When renewal fails, because the store is away or
    this process was stopped too long, the lock is lost: `held` turns False and `fence` raises
    `LeaseLost`, before another can have it. A thread cannot stop your code in the middle, so what must
    never be done twice has to carry `fence`, a number that grows from holder to holder, and whatever
    receives it has to refuse a smaller one than it has seen.

    Two locks of one name exclude each other within a process too. A lock can be taken again after it
    was let go of; it is not re-entrant, and not to be used from several threads at once.
    """

    def __init__(self, url: str, name: str, *, ttl_s: float = 5.0) -> None:
        if not 0.5 <= ttl_s <= 3600:
            raise ValueError(f"ttl_s is {ttl_s}; 0.5 to 3600 seconds are allowed")
        self.name = name
        self._url = url
        self._timing = Timing(ttl_s)
        self._thread: LoopThread | None = None
        self._store: Store | None = None
        self._holding: Holding | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._lost = threading.Event()

    def acquire(self, *, timeout_s: float | None = None, blocking: bool = True) -> bool:
        """Take the lock; wait for it as long as `timeout_s`, for ever when that is None.

        False when it could not be had in time, or with `blocking=False` at once. Raises a `StoreError`
        when the store cannot be reached.
        """
        if self._holding is not None:
            raise RuntimeError(f"lock {self.name!r} is taken already by this object")
        thread = LoopThread(f"tidemill-lock-{self.name}").start()
        self._lost.clear()
        try:
            taken = thread.run(self._acquire(timeout_s if blocking else 0.0))
        except BaseException:
            thread.stop()
            raise
        if not taken:
            thread.stop()
            return False
        self._thread = thread
        return True

    def release(self) -> None:
        """Let the next one in. What was lost is not touched; a lock that is not taken is left alone."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            thread.run(self._release())
        finally:
            self._holding = None
            thread.stop()

    @property
    def held(self) -> bool:
        """Whether the lock can be trusted right now. False after True is for good."""
        try:
            return self.fence > 0
        except LeaseLost:
            return False

    @property
    def fence(self) -> int:
        """The number under which this holder acts. Raises `LeaseLost` when the lock is not held."""
        return self.guard().term

    def guard(self) -> Fence:
        """The fence as a store's writes take it."""
        if self._holding is None:
            raise LeaseLost(f"lock {self.name!r} is not held")
        return self._holding.fence()

    def wait_lost(self, timeout_s: float | None = None) -> bool:
        """Wait until the lock is lost. For a thread that stops the work; False when time ran out."""
        return self._lost.wait(timeout_s)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    async def _acquire(self, timeout_s: float | None) -> bool:
        store = await open_store(self._url, connections=1, timeout_s=self._timing.trust_s).open()
        holding = Holding(store, self.name, timing=self._timing)
        try:
            taken = await self._wait(holding, timeout_s)
        except BaseException:
            await store.close()
            raise
        if not taken:
            await store.close()
            return False
        self._store, self._holding = store, holding
        self._keeping = asyncio.create_task(self._keep(holding))
        return True

    async def _wait(self, holding: Holding, timeout_s: float | None) -> bool:
        if timeout_s == 0:
            return await holding.try_acquire()
        try:
            async with asyncio.timeout(timeout_s):
                await holding.acquire()
        except TimeoutError:
            # The answer that would have granted it may have been under way.
            await holding.release()
            return False
        return True

    async def _keep(self, holding: Holding) -> None:
        await holding.keep()
        self._lost.set()

    async def _release(self) -> None:
        assert self._store is not None
        assert self._holding is not None
        if self._keeping is not None:
            self._keeping.cancel()
        try:
            await self._holding.release()
        except StoreError:
            # It cannot be let go of now, so it runs out by itself.
            pass
        finally:
            await self._store.close()
            self._store = None
