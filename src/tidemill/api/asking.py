"""Questions to a store from synchronous code."""

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from tidemill.base.bridge import LoopThread
from tidemill.store import Store, open_store

T = TypeVar("T")


class Connection:
    """A store that is open from `with` to its end, on a thread of its own. Nothing is left behind."""

    def __init__(self, url: str, timeout_s: float = 10.0) -> None:
        self._store = open_store(url, connections=1, timeout_s=timeout_s)
        self._thread = LoopThread("tidemill-connection")

    def ask(self, work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
        """What `work` answers. May be called from many threads."""
        return self._thread.run(work(self._store))

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._thread.run(self._store.open())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._thread.run(self._store.close())
        finally:
            self._thread.stop()


def ask(url: str, work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
    """What `work` answers, on a connection of its own."""
    with Connection(url) as connection:
        return connection.ask(work)
