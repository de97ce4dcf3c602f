"""The one connection of a backend, the thread that owns it, and its manners towards other writers."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import apsw

from tidemill.store.errors import BadRequest, ReadOnly, StoreError, Unavailable

T = TypeVar("T")

# SQLite's own busy handler backs off to 100 ms, so that a writer in a tight loop starves its neighbours
# for seconds. Ours asks every millisecond, and a writer that has had the lock for TURN_S pauses for
# PAUSE_S, in which any number of waiting renewals get their turn.
_ASK_S = 0.001
_TURN_S = 0.050
_PAUSE_S = 0.003


class ConnectionThread:
    """Runs functions on a connection, one after another, away from the event loop.

    A caller that gives up does not stop what it asked for: the function still runs to its end, before
    any later one. So what is asked next sees what became of it.
    """

    def __init__(self, path: Path, busy_s: float) -> None:
        self._path = path
        self._busy_s = busy_s
        self._jobs: SimpleQueue[Callable[[apsw.Connection], None] | None] = SimpleQueue()
        self._connection: apsw.Connection | None = None
        self._thread: threading.Thread | None = None
        self._held_s = 0.0
        self._last_end = 0.0

    async def open(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, name="tidemill-sqlite", daemon=True)
            self._thread.start()
        await self.run(lambda _: None)

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            await asyncio.to_thread(thread.join)

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work` in the thread; raise its error, translated."""
        if self._thread is None:
            raise Unavailable(f"{self._path} is closed")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def job(connection: apsw.Connection) -> None:
            try:
                result = work(connection)
            except BaseException as error:
                _deliver(loop, answer, error=error)
            else:
                _deliver(loop, answer, result)

        self._jobs.put(job)
        return await answer

    @contextmanager
    def writing(self, connection: apsw.Connection) -> Iterator[None]:
        """A write transaction: all of the block, or none of it. Called in the thread only."""
        with translated(self._path):
            self._give_way()
            connection.execute("BEGIN IMMEDIATE")
            begun = time.monotonic()
            try:
                yield
            except BaseException:
                _roll_back(connection)
                raise
            try:
                connection.execute("COMMIT")
            except apsw.IOError as error:
                _roll_back(connection)
                raise Unavailable(f"{self._path}: {error} while committing", maybe_applied=True) from error
            except apsw.Error:
                _roll_back(connection)
                raise
            self._last_end = time.monotonic()
            self._held_s += self._last_end - begun

    def _give_way(self) -> None:
        if time.monotonic() - self._last_end > _PAUSE_S:
            self._held_s = 0.0
        elif self._held_s > _TURN_S:
            time.sleep(_PAUSE_S)
            self._held_s = 0.0

    def _main(self) -> None:
        while (job := self._jobs.get()) is not None:
            job(self._connected())
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> Any:
        """The connection, or a stand-in that raises what kept it from being made."""
        if self._connection is None:
            try:
                with translated(self._path):
                    self._path.parent.mkdir(parents=True, exist_ok=True)
                    connection = apsw.Connection(str(self._path))
                    connection.set_busy_handler(self._ask_again())
                    self._connection = connection
            except (StoreError, OSError) as error:
                return _Broken(Unavailable(f"cannot open {self._path}: {error}"))
        return self._connection

    def _ask_again(self) -> Callable[[int], bool]:
        began = 0.0

        def ask_again(asked: int) -> bool:
            nonlocal began
            if asked == 0:
                began = time.monotonic()
            time.sleep(_ASK_S)
            return time.monotonic() - began < self._busy_s

        return ask_again


class _Broken:
    """Stands for a connection that could not be made."""

    def __init__(self, error: StoreError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Driver errors, said in the store's words. The only place that knows them."""
    try:
        yield
    except apsw.FullError as error:
        raise ReadOnly(f"{path}: the disk is full") from error
    except (apsw.ReadOnlyError, apsw.PermissionsError) as error:
        raise ReadOnly(f"{path} cannot be written: {error}") from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise Unavailable(f"{path} is locked by another process: {error}") from error
    except (apsw.CantOpenError, apsw.IOError) as error:
        raise Unavailable(f"{path}: {error}") from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise BadRequest(f"{path} is not a sound SQLite database: {error}") from error
    except apsw.TooBigError as error:
        raise BadRequest(f"{path}: {error}") from error
    except apsw.Error as error:
        raise Unavailable(f"{path}: {type(error).__name__}: {error}") from error


def _roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _deliver(
    loop: asyncio.AbstractEventLoop,
    answer: "asyncio.Future[T]",
    result: T | None = None,
    error: BaseException | None = None,
) -> None:
    def settle() -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]  # T itself may include None

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        # The caller's loop has ended; there is nobody left to tell.
        pass
