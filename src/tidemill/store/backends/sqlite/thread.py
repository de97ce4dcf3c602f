"""The one connection of a backend: where its work runs, and its manners towards other writers.

Most work takes a fraction of a millisecond, less than it takes to wake a thread and be woken by it. So
it runs at once, in the caller's own thread, as long as nothing has to be waited for. When another process
has the lock, when it is our turn to give way, or when the disk has just been slow, the work goes to a
thread, and the event loop is free meanwhile.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import apsw

from tidemill.store.backends.sqlite.counter import Counter
from tidemill.store.errors import BadRequest, Locked, ReadOnly, StoreError, Unavailable

T = TypeVar("T")

# SQLite's own busy handler backs off to 100 ms, so that a writer in a tight loop starves its neighbours
# for seconds. Ours asks several times a millisecond at first, and by and by less often: a hundred who wait
# must not take the processor from the one they wait for. A writer that has had the lock for TURN_S pauses
# for PAUSE_S, in which waiting renewals get their turn.
_ASK_S = 0.0003
_ASK_GROWTH = 1.05
_ASK_MOST_S = 0.050
_TURN_S = 0.150
_PAUSE_S = 0.010

# What took longer than SLOW_S has held up the event loop; for WARY_S after it, work goes to the thread.
_SLOW_S = 0.010
_WARY_S = 2.0
_MANY = 200


class ConnectionThread:
    """Runs functions on a connection, one after another.

    A caller that gives up, as it does after `timeout_s`, does not stop what it asked for: the function
    still runs to its end, before any later one. So what is asked next sees what became of it.
    """

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._path = path
        self._name = str(path)
        self._timeout_s = timeout_s
        # Given up on a little before the caller does, who then knows that nothing has happened.
        self._busy_s = 0.8 * timeout_s
        self._jobs: SimpleQueue[Callable[[apsw.Connection], None] | None] = SimpleQueue()
        self._queued = 0
        self._counting = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._thread: threading.Thread | None = None
        self.counter = Counter()
        self._inode = 0
        self._patient = True
        self._wary_until = 0.0
        self._held_s = 0.0
        self._last_end = 0.0

    async def open(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, name="tidemill-sqlite", daemon=True)
            self._thread.start()
        await self._in_thread(lambda _: None)

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            await asyncio.to_thread(thread.join)

    async def run(self, work: Callable[[apsw.Connection], T], *, rows: int = 1) -> T:
        """Run `work`, which touches about so many rows, here or in the thread; raise what it raises."""
        if self._thread is None:
            raise Unavailable(f"{self._path} is closed")
        if rows > _MANY or self._connection is None or self._queued or self._must_wait():
            return await self._in_thread(work)
        began = time.monotonic()
        self._patient = False
        try:
            return work(self._connection)
        except Busy:
            pass
        finally:
            self._patient = True
            if time.monotonic() - began > _SLOW_S:
                self._wary_until = time.monotonic() + _WARY_S
        # Nothing has happened yet: it was a read, or the begin of a transaction, that found the lock taken.
        return await self._in_thread(work)

    def reading(self, connection: apsw.Connection, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work`, which writes nothing. Rarely a read has to wait too: for a file that is being
        recovered, or that its last user is just closing."""
        try:
            return work(connection)
        except apsw.BusyError as error:
            raise Busy if not self._patient else translate(error, self._path) from error
        except apsw.Error as error:
            raise translate(error, self._path) from error

    def opening(self, connection: apsw.Connection, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work` again and again while the file is locked: SQLite does not always ask the busy handler
        while it changes the journal's mode. In the thread only, and `work` must bear to be repeated."""
        deadline = time.monotonic() + self._busy_s
        while True:
            try:
                return work(connection)
            except apsw.BusyError as error:
                if time.monotonic() > deadline:
                    raise translate(error, self._path) from error
                time.sleep(_ASK_S)
            except apsw.Error as error:
                raise translate(error, self._path) from error

    def transaction(self, connection: apsw.Connection, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work` as a write transaction: all of it, or none."""
        self._check_file()
        try:
            self._give_way()
            self._begin(connection)
            begun = time.monotonic()
            try:
                result = work(connection)
                self._commit(connection)
            except BaseException:
                self.counter.rolled_back()
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            self.counter.committed(connection)
        except apsw.Error as error:
            raise translate(error, self._path) from error
        self._last_end = time.monotonic()
        self._held_s += self._last_end - begun
        return result

    def _check_file(self) -> None:
        """Refuse to write to a file that nobody else can find any more: a second one may be in its place,
        with leases of its own."""
        try:
            # Not `Path.stat`, which takes five times as long, before every transaction.
            found = os.stat(self._name).st_ino  # noqa: PTH116
        except FileNotFoundError:
            found = 0
        if found != self._inode:
            raise Unavailable(f"{self._path} was removed or replaced while it was open; start again")

    def _begin(self, connection: apsw.Connection) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            if self._patient:
                raise
            raise Busy from None

    def _commit(self, connection: apsw.Connection) -> None:
        try:
            connection.execute("COMMIT")
        except apsw.IOError as error:
            raise Unavailable(f"{self._path}: {error} while committing", maybe_applied=True) from error

    def _must_wait(self) -> bool:
        return self._held_s > _TURN_S or time.monotonic() < self._wary_until

    def _give_way(self) -> None:
        if time.monotonic() - self._last_end > _PAUSE_S:
            self._held_s = 0.0
        elif self._held_s > _TURN_S:
            time.sleep(_PAUSE_S)
            self._held_s = 0.0

    async def _in_thread(self, work: Callable[[apsw.Connection], T]) -> T:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def job(connection: apsw.Connection) -> None:
            try:
                result = work(connection)
            except BaseException as error:
                _deliver(loop, answer, error=error)
            else:
                _deliver(loop, answer, result)

        # Counted up by the loop's thread and down by the other one, so never zero while a job is pending.
        with self._counting:
            self._queued += 1
        self._jobs.put(job)
        async with asyncio.timeout(self._timeout_s):
            return await answer

    def _main(self) -> None:
        while (job := self._jobs.get()) is not None:
            job(self._connected())
            with self._counting:
                self._queued -= 1
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> Any:
        """The connection, or a stand-in that raises what kept it from being made."""
        if self._connection is None:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                connection = apsw.Connection(str(self._path))
                connection.set_busy_handler(self._ask_again())
                self._inode = self._path.stat().st_ino
                self._connection = connection
            except (apsw.Error, OSError) as error:
                return _Broken(Unavailable(f"cannot open {self._path}: {error}"))
        return self._connection

    def _ask_again(self) -> Callable[[int], bool]:
        began = 0.0

        def ask_again(asked: int) -> bool:
            nonlocal began
            if not self._patient:
                return False
            if asked == 0:
                began = time.monotonic()
            time.sleep(min(_ASK_S * _ASK_GROWTH ** min(asked, 200), _ASK_MOST_S))
            return time.monotonic() - began < self._busy_s

        return ask_again


class Busy(Exception):
    """Another process has the lock, and this is not the place to wait for it."""


class _Broken:
    """Stands for a connection that could not be made."""

    def __init__(self, error: StoreError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error


def translate(error: apsw.Error, path: Path) -> StoreError:
    """A driver's error, said in the store's words. The only place that knows them."""
    match error:
        case apsw.FullError():
            return ReadOnly(f"{path}: the disk is full")
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return ReadOnly(f"{path} cannot be written: {error}")
        case apsw.BusyError() | apsw.LockedError():
            return Locked(f"{path} is locked by another process: {error}")
        case apsw.NotADBError() | apsw.CorruptError():
            return BadRequest(f"{path} is not a sound SQLite database: {error}")
        case apsw.TooBigError():
            return BadRequest(f"{path}: {error}")
        case _:
            return Unavailable(f"{path}: {type(error).__name__}: {error}")


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
