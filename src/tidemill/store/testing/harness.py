"""What a backend brings to be put through the suite."""

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Self

from tidemill.base.version import __version__
from tidemill.store.backend import Backend
from tidemill.store.store import Store
from tidemill.store.testing.faults import FaultyBackend


class Harness(ABC):
    """One empty database, and as many clients of it as a case asks for.

    `read_only` and `cut` return None where the database knows no such thing; then the case has
    nothing to show.
    """

    def __init__(self) -> None:
        self._open = AsyncExitStack()

    @abstractmethod
    def backend(self, release: str) -> Backend:
        """A new client, of that release, not opened yet."""

    def read_only(self) -> AbstractAsyncContextManager[None] | None:
        """Keep the database from taking writes, by a full disk or the like, while this is entered."""
        return None

    async def cut(self) -> bool:
        """Close every connection from the other side. False where there is no such thing."""
        return False

    async def connect(self, release: str = __version__) -> Store:
        """A client, opened; closed when the case ends."""
        return await self._open.enter_async_context(Store(self.backend(release)))

    async def connect_faulty(self, timeout_s: float = 10.0) -> tuple[Store, FaultyBackend]:
        """A client whose network fails on command."""
        faulty = FaultyBackend(self.backend(__version__))
        store = Store(faulty, timeout_s=timeout_s)
        return await self._open.enter_async_context(store), faulty

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()
