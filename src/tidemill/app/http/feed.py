"""What changes in the cluster, told to whoever listens.

A store's watch says that a collection changed, and not what. So after a change, and for all listeners
together, a look is taken: at the newest tasks, and at all queues, schedules and nodes, which are few. What it
finds that the look before did not is told. Nobody looks while nobody listens.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import asdict
from typing import Any

from msgspec import Struct

from tidemill.app.http.context import NodeContext
from tidemill.app.task_filter import projected
from tidemill.app.task_views import document_view, limits_view
from tidemill.base.clock import boot_clock
from tidemill.base.errors import TidemillError
from tidemill.base.log import Sparing, get_logger
from tidemill.store import Collection, Document, Store, gt
from tidemill.tasks.limits import NODE_LIMITS, NodeLimits, read_all_limits
from tidemill.tasks.queue import QUEUES
from tidemill.tasks.schedules import SCHEDULES
from tidemill.tasks.task import TASKS

log = get_logger("tidemill.feed")

NEWEST = 100
"""How many tasks a look takes in. That more have changed is told, and not which."""

PAUSE_S = 0.5
SHARE = 20
"""From one look to the next at least half a second, and so many times as long as the look took: sorting all
tasks by revision takes longer the more there are."""

POLL_S = 60.0
NODES_S = 5.0
"""That a node falls silent changes nothing in the store: it is found out by looking."""

MOST_WAITING = 1000
"""How many events wait for a listener that is slow; then it is told that there were more."""

_TASK = (
    *("queue", "status", "state", "key", "node", "priority", "attempt", "progress"),
    *("ctime", "mtime", "ended", "reason"),
)


class Event(Struct, frozen=True):
    """One thing that changed, as it is now; `more` when others changed that are not told."""

    name: str
    body: dict[str, Any]
    revision: int = 0


class Sight(Struct, frozen=True):
    """What a look found, by key: revisions and bodies. `whole` if there was nothing else."""

    entries: dict[str, tuple[int, dict[str, Any]]]
    whole: bool = True

    def newest(self) -> int:
        return max((revision for revision, _ in self.entries.values()), default=0)


NOTHING = Sight({})


def told(name: str, before: Sight, after: Sight) -> list[Event]:
    """What changed from one look to the next, oldest first. Pure.

    Where looks take in the newest alone, what was below them and has come up by a deletion is no change.
    """
    floor = -1 if before.whole else min(revision for revision, _ in before.entries.values())
    news = [
        Event(name, body, revision)
        for key, (revision, body) in after.entries.items()
        if revision > floor and before.entries.get(key) != (revision, body)
    ]
    news.sort(key=lambda event: event.revision)
    if not after.whole and len(news) == len(after.entries):
        news.insert(0, Event("more", {"of": name}))
    if before.whole and after.whole:
        label = "id" if name == "task" else "name"
        news += [
            Event(name, {label: key, "deleted": True}) for key in before.entries if key not in after.entries
        ]
    return news


class Kind(Struct, frozen=True):
    """One kind of things that change: where, and how to look at those above a revision."""

    name: str
    collection: Collection
    look: Callable[[int], Awaitable[Sight]]
    poll_s: float = POLL_S


class Feed:
    """Tells listeners what changes. One per node; it costs nothing while nobody listens."""

    def __init__(self, context: NodeContext) -> None:
        self._store = context.store
        self._kinds = kinds(context)
        self._listeners: set[asyncio.Queue[Event]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._looked = asyncio.Condition()
        self._before: dict[str, Sight] = {}

    async def listen(self, since: int | None = None) -> AsyncIterator[Event]:
        """What changes from now on, after a `hello`; with `since`, first what changed above that revision."""
        events: asyncio.Queue[Event] = asyncio.Queue(MOST_WAITING)
        self._listeners.add(events)
        try:
            if not self._tasks:
                self._tasks = [asyncio.create_task(self._follow(kind)) for kind in self._kinds]
            async with self._looked:
                await self._looked.wait_for(lambda: len(self._before) == len(self._kinds))
            newest = max(sight.newest() for sight in self._before.values())
            yield Event("hello", {"revision": newest}, newest if since is None else since)
            for event in [] if since is None else await self._missed(since):
                yield event
            while True:
                yield await events.get()
        finally:
            self._listeners.discard(events)
            if not self._listeners:
                self._stop()

    def _stop(self) -> None:
        """Look no more: nobody listens."""
        for task in self._tasks:
            task.cancel()
        self._tasks = []
        self._before = {}

    async def _missed(self, since: int) -> list[Event]:
        found = [told(kind.name, NOTHING, await kind.look(since)) for kind in self._kinds]
        return sorted((event for events in found for event in events), key=lambda event: event.revision)

    async def _follow(self, kind: Kind) -> None:
        away = Sparing(log)
        while True:
            try:
                async with self._store.watch(kind.collection, poll_s=kind.poll_s) as watch:
                    while True:
                        began = boot_clock()
                        await self._look(kind)
                        away.over()
                        await asyncio.sleep(max(PAUSE_S, SHARE * (boot_clock() - began)))
                        await watch.wait()
            except TidemillError as error:
                away.warn("feed.store", error=str(error), code=error.code)
                await asyncio.sleep(PAUSE_S)

    async def _look(self, kind: Kind) -> None:
        after = await kind.look(-1)
        before, self._before[kind.name] = self._before.get(kind.name), after
        if before is not None:
            self._tell(told(kind.name, before, after))
        async with self._looked:
            self._looked.notify_all()

    def _tell(self, events: Iterable[Event]) -> None:
        for event in events:
            for listener in self._listeners:
                if listener.full():
                    while not listener.empty():
                        listener.get_nowait()
                    listener.put_nowait(Event("more", {"of": "all"}))
                listener.put_nowait(event)


def kinds(context: NodeContext) -> list[Kind]:
    """What can be listened to."""

    async def nodes(_: int) -> Sight:
        limits = await read_all_limits(context.store)
        views = [
            asdict(node) | limits_view(limits.get(node.name, NodeLimits()), node.token)
            for node in await context.nodes()
        ]
        # When it was last seen changes all the time, and tells nothing beyond whether it is alive.
        return Sight(
            {view["name"]: (0, {name: view[name] for name in view if name != "seen"}) for view in views}
        )

    return [
        Kind("task", TASKS, lambda since: _documents(context.store, TASKS, since, NEWEST, _task)),
        Kind("queue", QUEUES, lambda since: _documents(context.store, QUEUES, since, 1000, _named)),
        Kind("schedule", SCHEDULES, lambda since: _documents(context.store, SCHEDULES, since, 1000, _named)),
        Kind("node", NODE_LIMITS, nodes, NODES_S),
    ]


async def _documents(
    store: Store, collection: Collection, since: int, limit: int, shown: Callable[[Document], dict[str, Any]]
) -> Sight:
    """The newest documents above a revision."""
    page = await store.find(collection, gt("revision", since), sort=("-revision",), limit=limit)
    entries = {document.key: (document.revision, shown(document)) for document in page.documents}
    return Sight(entries, whole=page.cursor is None)


def _task(document: Document) -> dict[str, Any]:
    return projected(document_view(document), _TASK)


def _named(document: Document) -> dict[str, Any]:
    return {"name": document.key, **document.body}
