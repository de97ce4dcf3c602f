"""The workers that are there, those that have just gone, and what each of them has done.

A document per worker, by the id that it registers with. Each node writes what it knows of its own
connections, a moment after it has changed; counts are added up, whoever writes them.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tidemill.base.log import get_logger
from tidemill.store import Collection, Document, Done, Store, StoreError, Write
from tidemill.tasks.remote.link import Link
from tidemill.tasks.storetime import StoreTime
from tidemill.worker.wire import SUBPROTOCOL

log = get_logger("tidemill.roster")

WORKERS = Collection("workers")
KICKS = Collection("worker_kicks")
"""A document per worker whom somebody wants gone: nodes that have its connection close it."""

MOMENT_S = 0.02
FLUSH_S = 1.0
"""What comes within a moment is written together, and again after a second at the earliest."""

RECENT_MS = 10 * 60 * 1000
"""For how long a connection that has ended is shown."""

KICK_MS = 60_000
_IDS = uuid.UUID("3d1f4c0e-5a0d-4f2a-8a44-2c8f3f6c9b71")
_MOST_GONE = 20
CHUNK = 500


class Seen(Struct, frozen=True, omit_defaults=True):
    """A connection of a worker as its node last saw it. `token` is that of the node; `gone` when it ended."""

    queue: str
    node: str
    token: str
    since: int
    protocol: str = "plain"
    slots: int = 1
    state: str = "new"
    tasks: tuple[str, ...] = ()
    seen: int = 0
    gone: int | None = None
    reason: str | None = None


class Worker(Struct, frozen=True, omit_defaults=True):
    """All that is known of a worker. The counts are of jobs, and outlive every connection."""

    id: str
    name: str
    first_seen: int = 0
    succeeded: int = 0
    failed: int = 0
    dropped: int = 0
    sessions: dict[str, Seen] = {}


class Tally(Struct, frozen=True):
    """What is to be added to the counts of a worker."""

    succeeded: int = 0
    failed: int = 0
    dropped: int = 0

    def plus(self, **more: int) -> "Tally":
        return Tally(**{name: getattr(self, name) + more.get(name, 0) for name in self.__struct_fields__})


def seen_of(link: Link, since: int, node: str, token: str) -> Seen:
    """That connection as it is now, which was enrolled then by the store's time."""
    session = link.session
    return Seen(
        queue=link.queue,
        node=node,
        token=token,
        since=since,
        protocol="plain" if session.plain else SUBPROTOCOL,
        slots=1 if session.plain else link.worker.slots,
        state="working" if session.tasks else "ready" if session.free else "busy",
        tasks=tuple(one.ref.task for one in session.tasks),
        seen=since + round(link.age_s * 1000),
    )


def worker_key(worker_id: str) -> str:
    return str(uuid.uuid5(_IDS, worker_id))


def merged(worker: Worker, tally: Tally, sessions: Mapping[str, Seen], now: int) -> Worker:
    """What is written: the counts added, these connections as they are, none that ended long ago. Pure."""
    together = {**worker.sessions, **sessions}
    gone = sorted((one.gone, number) for number, one in together.items() if one.gone is not None)
    old = {number for at, number in gone if at < now - RECENT_MS} | {
        number for _, number in gone[:-_MOST_GONE]
    }
    return replace(
        worker,
        first_seen=min([worker.first_seen or now, *(one.since for one in together.values())]),
        succeeded=worker.succeeded + tally.succeeded,
        failed=worker.failed + tally.failed,
        dropped=worker.dropped + tally.dropped,
        sessions={number: one for number, one in together.items() if number not in old},
    )


class Roster:
    """What this node says about its workers: written at once, and while there is more, once a second."""

    def __init__(self, store: Store, time: StoreTime) -> None:
        self._store = store
        self._time = time
        self._names: dict[str, str] = {}
        self._tallies: dict[str, Tally] = {}
        self._sessions: dict[str, dict[str, Seen]] = {}
        self._some = asyncio.Event()
        self._flushing = asyncio.Lock()

    def show(self, worker_id: str, name: str, number: str, seen: Seen) -> None:
        """That connection is so now."""
        self._names[worker_id] = name
        self._sessions.setdefault(worker_id, {})[number] = seen
        self._some.set()

    def count(self, worker_id: str, name: str, **more: int) -> None:
        """Add to the counts of a worker."""
        self._names[worker_id] = name
        self._tallies[worker_id] = self._tallies.get(worker_id, Tally()).plus(**more)
        self._some.set()

    async def run(self) -> None:
        """Write until cancelled. While the store is away, what there is to say waits."""
        while True:
            await self._some.wait()
            await asyncio.sleep(MOMENT_S)
            await self.flush()
            await asyncio.sleep(FLUSH_S)

    async def flush(self) -> None:
        """Write down all there is to say. What could not be written is said again next time.

        One at a time: of two who write about the same worker, one would lose, and a node that leaves has no
        next time.
        """
        async with self._flushing:
            self._some.clear()
            tallies, self._tallies = self._tallies, {}
            sessions, self._sessions = self._sessions, {}
            ids = list(dict.fromkeys([*tallies, *sessions]))
            for start in range(0, len(ids), CHUNK):
                await self._write_or_keep(ids[start : start + CHUNK], tallies, sessions)

    async def _write_or_keep(
        self, ids: Sequence[str], tallies: Mapping[str, Tally], sessions: Mapping[str, Mapping[str, Seen]]
    ) -> None:
        try:
            written = await self._write(ids, tallies, sessions)
        except StoreError as error:
            log.warning("workers.not_written", error=str(error), code=error.code)
            written = set()
        for worker_id in ids:
            if worker_id not in written:
                self._take_back(worker_id, tallies.get(worker_id), sessions.get(worker_id, {}))

    async def _write(
        self, ids: Sequence[str], tallies: Mapping[str, Tally], sessions: Mapping[str, Mapping[str, Seen]]
    ) -> set[str]:
        """Write these together; say which were."""
        found = await self._store.get_many(WORKERS, [worker_key(one) for one in ids])
        now = await self._time.now()
        writes = []
        for worker_id in ids:
            document = found.get(worker_key(worker_id))
            before = Worker(worker_id, "") if document is None else worker_of(document)
            before = replace(before, name=self._names[worker_id])
            after = merged(before, tallies.get(worker_id, Tally()), sessions.get(worker_id, {}), now)
            expect = None if document is None else document.revision
            writes.append(Write(WORKERS, worker_key(worker_id), msgspec.to_builtins(after), expect))
        outcomes = await self._store.write(writes)
        return {one for one, outcome in zip(ids, outcomes, strict=True) if isinstance(outcome, Done)}

    def _take_back(self, worker_id: str, tally: Tally | None, sessions: Mapping[str, Seen]) -> None:
        if tally is not None:
            known = self._tallies.get(worker_id, Tally())
            self._tallies[worker_id] = known.plus(**msgspec.structs.asdict(tally))
        if sessions:
            self._sessions[worker_id] = {**sessions, **self._sessions.get(worker_id, {})}
        self._some.set()


def worker_of(document: Document) -> Worker:
    return msgspec.convert(document.body, Worker)


async def each_worker(store: Store) -> AsyncIterator[Worker]:
    """All workers that were ever there, by nothing in particular."""
    cursor: str | None = None
    while True:
        page = await store.find(WORKERS, limit=500, cursor=cursor)
        for document in page.documents:
            yield worker_of(document)
        if page.cursor is None:
            return
        cursor = page.cursor


async def get_worker(store: Store, worker_id: str) -> Worker | None:
    """The worker that registers with that id."""
    found = await store.get(WORKERS, worker_key(worker_id))
    return None if found is None else worker_of(found)


async def others_at(store: Store, queue: str, worker_id: str, tokens: frozenset[str]) -> bool:
    """Whether another worker takes jobs of that queue, on one of the nodes with these tokens."""
    async for worker in each_worker(store):
        if worker.id != worker_id and any(
            one.gone is None and one.queue == queue and one.token in tokens
            for one in worker.sessions.values()
        ):
            return True
    return False


async def ask_to_leave(store: Store, worker_id: str) -> None:
    """Have every node close its connections of that worker. It may come again."""
    now = await store.now()
    key = worker_key(worker_id)
    found = await store.get(KICKS, key)
    body = {"id": worker_id, "at": now}
    await store.write([Write(KICKS, key, body, None if found is None else found.revision)])


async def asked_to_leave(store: Store) -> dict[str, int]:
    """The workers that are to leave, each with the moment of that; what is old is removed."""
    now = await store.now()
    page = await store.find(KICKS, limit=1000)
    old = [one for one in page.documents if one.body["at"] < now - KICK_MS]
    await store.write([Write(KICKS, one.key, None, one.revision) for one in old])
    return {one.body["id"]: one.body["at"] for one in page.documents if one.body["at"] >= now - KICK_MS}
