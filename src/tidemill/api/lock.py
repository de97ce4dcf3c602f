"""`tidemill.Lock`: mutual exclusion among processes that share nothing but a store."""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tidemill.base.bridge import LoopThread
from tidemill.cluster import Holding, LeaseLost, Timing
from tidemill.store import Fence, Store, StoreError, open_store

LEAVE_S = 2.0
"""How long letting go may take; after that the lease runs out by itself."""


class Lock:
    """A lock in the store at `url`, held by at most one of all who name it.

        with tidemill.Lock("sqlite:///jobs.db", "nightly-report") as lock:
            publish(report, fence=lock.fence)

    It is a lease of `ttl_s` seconds: while it is held, a thread of this process renews it, and when
    the process dies another can have it within `ttl_s`. When renewal fails, because the store is away or
    this process was stopped too long, the lock is lost: `held` turns False and `fence` raises
    `LeaseLost`, before another can have it. A thread cannot stop your code in the middle, so what must
    never be done twice has to carry `fence`, a number that grows from holder to holder (not by one), and
    whatever receives it has to refuse a smaller one than it has seen. Leaving the `with` block of a lock
    that was lost raises nothing.

    Two locks of one name exclude each other within a process too. A lock can be taken again after it
    was let go of; it is not re-entrant, and not to be used from several threads at once. It is let go
    of when the object is dropped and when the process exits. A child that is forked while it is held
    does not hold it. Each held lock costs a thread and a connection.
    """

    def __init__(self, url: str, name: str, *, ttl_s: float = 5.0) -> None:
        if url.startswith("memory:"):
            raise ValueError("a lock in memory: would keep nobody out; name a store that others can reach")
        if not 0.5 <= ttl_s <= 3600:
            raise ValueError(f"ttl_s is {ttl_s}; 0.5 to 3600 seconds are allowed")
        self.name = name
        self._url = url
        self._timing = Timing(ttl_s)
        self._held: _Held | None = None
        self._leave: Callable[[], object] = lambda: None

    def acquire(self, *, timeout_s: float | None = None, blocking: bool = True) -> bool:
        """Take the lock; wait for it as long as `timeout_s`, for ever when that is None.

        False when it could not be had in time, or with `blocking=False` at once. Raises a `StoreError`
        when the store cannot be reached.
        """
        if timeout_s is not None and not timeout_s >= 0:
            raise ValueError(f"timeout_s is {timeout_s}; it cannot be less than 0")
        if self._mine() is not None:
            raise RuntimeError(f"lock {self.name!r} is taken already by this object")
        held = _Held(self._url, self.name, self._timing)
        if not held.acquire(timeout_s if blocking else 0.0):
            return False
        self._held = held
        self._leave = weakref.finalize(self, held.leave)
        return True

    def release(self) -> None:
        """Let the next one in. What was lost is not touched; a lock that is not taken is left alone."""
        self._held, leave, self._leave = None, self._leave, lambda: None
        leave()

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
        held = self._mine()
        if held is None or held.holding is None:
            raise LeaseLost(f"lock {self.name!r} is not held")
        return held.holding.fence()

    def wait_lost(self, timeout_s: float | None = None) -> bool:
        """Wait until the lock is lost. For a thread that stops the work; False when time ran out."""
        held = self._mine()
        return held is None or held.lost.wait(timeout_s)

    def _mine(self) -> "_Held | None":
        """What this process holds: a fork copies the object, but not the thread that renews."""
        return self._held if self._held is not None and self._held.pid == os.getpid() else None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class _Held:
    """The thread, the connection and the renewal behind one taking of a lock. Knows nothing of the `Lock`,
    so that dropping that lets go of this."""

    def __init__(self, url: str, name: str, timing: Timing) -> None:
        self.pid = os.getpid()
        self.lost = threading.Event()
        self.holding: Holding | None = None
        self._name = name
        self._timing = timing
        self._store = open_store(url, connections=1, timeout_s=timing.trust_s)
        self._thread = LoopThread(f"tidemill-lock-{name}")
        self._keeping: asyncio.Task[None] | None = None

    def acquire(self, timeout_s: float | None) -> bool:
        self._thread.start()
        taken = False
        try:
            taken = self._thread.run(self._acquire(timeout_s))
        finally:
            if not taken:
                # Also cancels an attempt that was under way when the caller was interrupted.
                self._thread.stop()
        return taken

    def leave(self) -> None:
        if self.pid == os.getpid():
            try:
                self._thread.run(self._release(), timeout_s=LEAVE_S)
            finally:
                self._thread.stop()

    async def _acquire(self, timeout_s: float | None) -> bool:
        await self._store.open()
        holding = Holding(self._store, self._name, timing=self._timing)
        taken = False
        try:
            taken = await _wait(holding, timeout_s)
        finally:
            if not taken:
                await _give_up(holding, self._store)
        if taken:
            self.holding = holding
            self._keeping = asyncio.create_task(self._keep(holding))
        return taken

    async def _keep(self, holding: Holding) -> None:
        await holding.keep()
        self.lost.set()

    async def _release(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
        if self.holding is not None:
            await _give_up(self.holding, self._store)


async def _wait(holding: Holding, timeout_s: float | None) -> bool:
    if timeout_s == 0:
        return await holding.try_acquire()
    try:
        async with asyncio.timeout(timeout_s):
            await holding.acquire()
    except TimeoutError:
        return False
    return True


async def _give_up(holding: Holding, store: Store) -> None:
    """Let go of what is held, or may just have been granted; what cannot be reached runs out by itself."""
    try:
        async with asyncio.timeout(LEAVE_S):
            await holding.give_up()
    except (StoreError, TimeoutError):
        pass
    finally:
        await store.close()
