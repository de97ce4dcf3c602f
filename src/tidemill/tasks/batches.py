"""Batches: the tasks of a remote queue in numbered groups of a bounded size.

A document per queue counts the seats that were taken: task by task a seat in the batch that is being filled,
and the first seat of the next batch once that is full. A seat whose task never came stays empty: its
submitter died, or the task was there already.

    {"number": 57, "taken": 12, "sizes": [[1, 100], [40, 10]], "at": 1767…, "filled": [[56, 1767…]]}

`number` is the batch that is being filled, and `taken` how many of its seats are. `sizes` says from which
batch on which size counts, `at` when a seat was last taken, and `filled` by when batches up to a number were
full, as far back as tasks may still be on their way to their seats.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from tidemill.store import (
    Collection,
    Conflict,
    Document,
    Done,
    Lost,
    OutcomeUnknown,
    Store,
    Unavailable,
    Write,
    eq,
)
from tidemill.tasks.errors import NoSuchBatch
from tidemill.tasks.queue import Queue
from tidemill.tasks.status import is_ended, name_of
from tidemill.tasks.storetime import StoreTime
from tidemill.tasks.task import TASKS, UNENDED

BATCHES = Collection("batches")

BATCH_SIZE = 100
"""How many tasks a batch has, unless its queue says otherwise."""

SEAT_S = 30.0
"""For how long a seat may be taken by a task that is not written yet."""

SETTLED_MS = 60_000
"""After this time no task comes any more for a seat: twice what it may be kept, as writing takes time too."""

POLL_S = 5.0
CALM_S = 0.05
_COUNTED = 10_000
_ATTEMPTS = 100


class Seating(Struct, frozen=True, omit_defaults=True):
    """How far the batches of a queue are filled, as it was at one moment."""

    number: int = 0
    taken: int = 0
    sizes: tuple[tuple[int, int], ...] = ()
    at: int = 0
    filled: tuple[tuple[int, int], ...] = ()

    def size(self, number: int) -> int:
        """How many seats that batch has."""
        return next((size for first, size in reversed(self.sizes) if first <= number), 0)

    def seats(self, number: int) -> int:
        """How many seats of that batch are taken."""
        return self.taken if number == self.number else self.size(number)

    def is_full(self, number: int) -> bool:
        return self.seats(number) == self.size(number)

    def last_taken(self, number: int) -> int:
        """When its last seat was taken; of one that was filled long ago, a moment that is long past too."""
        if number == self.number:
            return self.at
        return next((moment for upto, moment in self.filled if upto >= number), 0)


def take(seating: Seating, n: int, size: int, now: int) -> tuple[list[tuple[int, int]], Seating]:
    """Take so many seats: the batches that they are in, with how many in each, and how it is then. Pure."""
    given: list[tuple[int, int]] = []
    number, taken, sizes = seating.number, seating.taken, seating.sizes
    room = seating.size(number) - taken
    while n > 0:
        if room == 0:
            number, taken, room = number + 1, 0, size
            if not sizes or sizes[-1][1] != size:
                sizes = (*sizes, (number, size))
        seats = min(n, room)
        given.append((number, seats))
        n, taken, room = n - seats, taken + seats, room - seats
    return given, Seating(number, taken, sizes, _second(now), _filled(seating, number, now))


def _filled(before: Seating, number: int, now: int) -> tuple[tuple[int, int], ...]:
    """By when the batches below `number` were full, as far as that is not long past."""
    known = dict(before.filled)
    if number > before.number > 0:
        known[before.number] = before.at if before.is_full(before.number) else _second(now)
    if number - 1 > before.number:
        known[number - 1] = _second(now)
    # Of several in the same second, and of those that are long past, the last one says it.
    past = max((moment for moment in known.values() if moment <= now - SETTLED_MS), default=0)
    last = {moment: upto for upto, moment in known.items() if moment >= past}
    return tuple((upto, moment) for moment, upto in last.items())


def _second(now: int) -> int:
    return -(-now // 1000) * 1000


class Batch(Struct, frozen=True):
    """A batch as it was at one moment.

    `stable` says that its tasks are all there: no other will be in it. `done` says that all that are there,
    or on their way, have ended. `percent` is of the tasks that there are.
    """

    queue: str
    number: int
    size: int
    taken: int
    full: bool
    stable: bool
    tasks: int
    ended: int
    percent: float
    done: bool
    counts: dict[str, int]


def batch_of(queue: str, seating: Seating, number: int, counts: Mapping[int, int], now: int) -> Batch:
    """The batch, from the seats that were taken and how many of its tasks have which status. Pure."""
    tasks = sum(counts.values())
    ended = sum(count for status, count in counts.items() if is_ended(status))
    seats = seating.seats(number)
    settled = tasks >= seats or seating.last_taken(number) <= now - SETTLED_MS
    full = seating.is_full(number)
    return Batch(
        queue=queue,
        number=number,
        size=seating.size(number),
        taken=seats,
        full=full,
        stable=full and settled,
        tasks=tasks,
        ended=ended,
        percent=round(100 * ended / tasks, 1) if tasks else 0.0,
        done=settled and ended == tasks,
        counts={name_of(status): counts[status] for status in sorted(counts)},
    )


class Batches:
    """The batches of all remote queues in a store. Made once per process."""

    def __init__(self, store: Store, time: StoreTime | None = None) -> None:
        self._store = store
        self._time = time or StoreTime(store)
        self._locks: dict[str, asyncio.Lock] = {}
        self._asked: dict[str, list[tuple[int, asyncio.Future[list[int]]]]] = {}
        self._known: dict[str, tuple[Seating, int | None]] = {}

    # Taking seats

    async def seats(self, queue: Queue, n: int) -> list[int]:
        """Seats for n tasks, which must be written at once: the number of the batch of each.

        Those who ask while others are being served are served together, by one write. Raises `Unavailable`
        when the store took so long that the seats may count as empty already.
        """
        since = self._time.clock()
        mine: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        self._asked.setdefault(queue.name, []).append((n, mine))
        try:
            await asyncio.sleep(0)  # whoever comes in this same moment is served with us
            async with self._locks.setdefault(queue.name, asyncio.Lock()):
                if not mine.done():
                    await self._serve(queue)
            given = await mine
        finally:
            mine.cancel()
        if self._time.clock() - since > SEAT_S:
            raise Unavailable(f"the store took too long to give seats in a batch of {queue.name!r}")
        return given

    async def _serve(self, queue: Queue) -> None:
        """Take seats for all who have asked. Under the queue's lock."""
        asked = [entry for entry in self._asked.pop(queue.name) if not entry[1].done()]
        try:
            numbers = iter(await self._take(queue, sum(n for n, _ in asked)))
        except asyncio.CancelledError:
            # Only the one who serves is going; the others are still to be served, by the next of them.
            self._asked[queue.name] = asked + self._asked.get(queue.name, [])
            raise
        except Exception as error:
            for _, future in asked:
                if not future.done():
                    future.set_exception(error)
            return
        for n, future in asked:
            given = [next(numbers) for _ in range(n)]
            if not future.done():
                future.set_result(given)

    async def _take(self, queue: Queue, n: int) -> list[int]:
        size = queue.batch_size or BATCH_SIZE
        for _ in range(_ATTEMPTS):
            known = self._known.pop(queue.name) if queue.name in self._known else None
            before, revision = known or await self._read(queue.name)
            given, after = take(before, n, size, await self._time.now())
            write = Write(BATCHES, queue.name, msgspec.to_builtins(after), revision)
            [outcome] = await self._store.write([write])
            match outcome:
                case Done(revision):
                    self._known[queue.name] = (after, revision)
                    return [number for number, seats in given for _ in range(seats)]
                case Lost():
                    continue
                case _:
                    raise OutcomeUnknown(f"whether seats in {queue.name!r} were taken cannot be told")
        raise Conflict(f"the batches of {queue.name!r} change too fast")

    async def _read(self, queue: str) -> tuple[Seating, int | None]:
        found = await self._store.get(BATCHES, queue)
        return (Seating(), None) if found is None else (_seating(found), found.revision)

    # Looking

    async def get(self, queue: str, number: int) -> Batch:
        """The batch as it is now. Raises `NoSuchBatch`."""
        seating, _ = await self._read(queue)
        if not 1 <= number <= seating.number:
            raise NoSuchBatch(f"queue {queue!r} has no batch {number}; the last one is {seating.number}")
        return await self._batch(queue, seating, number)

    async def list(self, queue: str, below: int | None = None, limit: int = 20) -> list[Batch]:
        """The batches of a queue, the newest first, or those with numbers below that one."""
        seating, _ = await self._read(queue)
        last = seating.number if below is None else min(seating.number, below - 1)
        return [await self._batch(queue, seating, number) for number in range(last, max(last - limit, 0), -1)]

    async def wait(self, queue: str, number: int, timeout_s: float | None = None) -> Batch:
        """The batch once it is done, or as it is when the time is up. Raises `NoSuchBatch`."""
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._store.watch(TASKS, "ended", poll_s=POLL_S) as watch,
            ):
                while not (batch := await self._if_ended(queue, number)) or not batch.done:
                    await asyncio.sleep(CALM_S)
                    await watch.wait()
                return batch
        except TimeoutError:
            return await self.get(queue, number)

    async def _if_ended(self, queue: str, number: int) -> Batch | None:
        """The batch, if none of its tasks is still to be done: a cheaper question than how far all are."""
        mine = (eq("queue", queue), eq("batch", number))
        for unended in UNENDED:
            if await self._store.count(TASKS, *mine, unended, limit=1):
                return None
        return await self.get(queue, number)

    async def _batch(self, queue: str, seating: Seating, number: int) -> Batch:
        counts = await self._counts(queue, number)
        return batch_of(queue, seating, number, counts, await self._time.now())

    async def _counts(self, queue: str, number: int) -> Counter[int]:
        """How many of its tasks have which status."""
        counts: Counter[int] = Counter()
        cursor: str | None = None
        while True:
            page = await self._store.find(
                TASKS,
                *(eq("queue", queue), eq("batch", number)),
                sort=("status",),
                limit=_COUNTED,
                cursor=cursor,
                fields=("status",),
            )
            counts.update(int(found.body["status"]) for found in page.documents)
            if (cursor := page.cursor) is None:
                return counts


def _seating(document: Document) -> Seating:
    return msgspec.convert(document.body, Seating)
