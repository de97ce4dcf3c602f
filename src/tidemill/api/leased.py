"""What `Lock` and `Semaphore` have in common: a lease that a thread of this process renews."""

import asyncio
import contextlib
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from tidemill.base.bridge import LoopThread
from tidemill.cluster import LeaseLost, Timing
from tidemill.store import Fence, Store, StoreError, absolute_url, open_store

T = TypeVar("T")

LEAVE_S = 2.0
"""How long letting go may take; after that the lease runs out by itself."""


class Taking(Protocol):
    """One attempt at a lease, and what comes of it: a `Holding` or a `Seat`."""

    async def try_acquire(self) -> bool: ...

    async def acquire(self) -> None: ...

    async def keep(self) -> None: ...

    async def give_up(self) -> None: ...

    def fence(self) -> Fence: ...


class Leased(ABC):
    """Something in the store at `url` that can be taken, kept and lost.

    A pickle of it says what it is, and never that it is held.
    """

    what = "lease"

    def __init__(self, url: str, name: str, ttl_s: float) -> None:
        if url.startswith("memory:"):
            raise ValueError(
                f"a {self.what} in memory: would keep nobody out; name a store that others can reach"
            )
        if not 0.5 <= ttl_s <= 3600:
            raise ValueError(f"ttl_s is {ttl_s}; 0.5 to 3600 seconds are allowed")
        self.name = name
        self._url = absolute_url(url)
        self._timing = Timing(ttl_s)
        self._held: _Held | None = None
        self._leave: Callable[[], object] = lambda: None

    @abstractmethod
    def _taking(self, store: Store, timing: Timing) -> Taking:
        """A fresh attempt, with a token of its own. May not hold on to this object."""

    def acquire(self, *, timeout_s: float | None = None, blocking: bool = True) -> bool:
        """Take it; wait for it as long as `timeout_s`, for ever when that is None.

        False when it could not be had in time, or with `blocking=False` at once. Raises a `StoreError`
        when the store cannot be reached.
        """
        if timeout_s is not None and not timeout_s >= 0:
            raise ValueError(f"timeout_s is {timeout_s}; it cannot be less than 0")
        if self._mine() is not None:
            raise RuntimeError(f"{self.what} {self.name!r} is taken already by this object")
        store = self._open()
        held = _Held(store, self._taking(store, self._timing), f"tidemill-{self.what}-{self.name}")
        if not held.acquire(timeout_s if blocking else 0.0):
            return False
        self._held = held
        self._leave = weakref.finalize(self, held.leave)
        return True

    def release(self) -> None:
        """Let the next one in. What was lost is not touched; what is not taken is left alone."""
        self._held, leave, self._leave = None, self._leave, lambda: None
        leave()

    @property
    def held(self) -> bool:
        """Whether it can be trusted right now. False after True is for good."""
        try:
            return self.fence > 0
        except LeaseLost:
            return False

    @property
    def fence(self) -> int:
        """The number under which this holder acts. Raises `LeaseLost` when it is not held."""
        return self.guard().term

    def guard(self) -> Fence:
        """The fence as a store's writes take it."""
        held = self._mine()
        if held is None:
            raise LeaseLost(f"{self.what} {self.name!r} is not held")
        return held.taking.fence()

    def wait_lost(self, timeout_s: float | None = None) -> bool:
        """Wait until it is lost or let go of. For a thread that stops the work; False when time ran out."""
        held = self._mine()
        return held is None or held.lost.wait(timeout_s)

    def _mine(self) -> "_Held | None":
        """What this process holds: a fork copies the object, but not the thread that renews."""
        return self._held if self._held is not None and self._held.pid == os.getpid() else None

    def _open(self) -> Store:
        return open_store(self._url, connections=1, timeout_s=self._timing.trust_s)

    def _ask(self, work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        """What `work` answers, on a connection of its own."""

        async def ask() -> T:
            async with self._open() as store:
                return await work(store)

        with LoopThread(f"tidemill-{self.what}-{self.name}") as thread:
            return thread.run(ask())

    def __getstate__(self) -> dict[str, Any]:
        fresh = {"_held": None, "_leave": None}
        return {**self.__dict__, **fresh}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _leave=lambda: None)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class _Held:
    """The thread, the connection and the renewal behind one taking. Knows nothing of the `Leased`, so that
    dropping that lets go of this."""

    def __init__(self, store: Store, taking: Taking, name: str) -> None:
        self.pid = os.getpid()
        self.lost = threading.Event()
        self.taking = taking
        self._store = store
        self._thread = LoopThread(name)
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
                with contextlib.suppress(TimeoutError):
                    self._thread.run(self._release(), timeout_s=LEAVE_S)
            finally:
                self._thread.stop()

    async def _acquire(self, timeout_s: float | None) -> bool:
        await self._store.open()
        taken = False
        try:
            taken = await _wait(self.taking, timeout_s)
        finally:
            if not taken:
                await self._give_up()
        if taken:
            self._keeping = asyncio.create_task(self._keep())
        return taken

    async def _keep(self) -> None:
        try:
            await self.taking.keep()
        finally:
            self.lost.set()

    async def _release(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
        await self._give_up()

    async def _give_up(self) -> None:
        """Let go of what is held or may just have been granted; if it cannot be reached, it runs out."""
        try:
            async with asyncio.timeout(LEAVE_S):
                await self.taking.give_up()
        except (StoreError, TimeoutError):
            pass
        finally:
            await self._store.close()


async def _wait(taking: Taking, timeout_s: float | None) -> bool:
    if timeout_s == 0:
        return await taking.try_acquire()
    try:
        async with asyncio.timeout(timeout_s):
            await taking.acquire()
    except TimeoutError:
        return False
    return True
