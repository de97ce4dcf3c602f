"""Blobs of tasks that no document refers to: a crash left them, or a node that had lost its task put them
there.

The leader looks for them a few times a day. One goes when it is older than a day, and two looks in a row
found nobody who refers to it: a document that is written while the leader reads them all is seen by the next
look.
"""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice

from tidemill.base.log import get_logger
from tidemill.cluster import Grant
from tidemill.store import Body
from tidemill.store.blobs import BlobError, Blobs, Swept
from tidemill.tasks.blobs import PREFIX, REFERRING, blob_name
from tidemill.tasks.errors import BadTask
from tidemill.tasks.handlers import HANDLERS
from tidemill.tasks.registry import Registry
from tidemill.tasks.task import TASKS

log = get_logger("tidemill.leftovers")

GRACE_S = 24 * 3600.0
LOOK_S = 6 * 3600.0
FIRST_S = 600.0
"""How old a blob is at least, how long the leader rests from look to look, and before its first."""

MOST = 100_000
"""How many are looked at in one go; the others have their turn once these are gone."""

PAGE = 200
GAP_S = 0.02
"""The pause from one page to the next, in which others have the store."""


class Leftovers:
    """Removes what nobody refers to: `Duty("leftovers", leftovers.lead)`."""

    def __init__(self, registry: Registry) -> None:
        self._store = registry.store
        self._shelves = registry.shelves
        self._suspects: frozenset[str] = frozenset()

    async def lead(self, _: Grant) -> None:
        """Go on until cancelled. What cannot be reached is looked at next time."""
        self._suspects = frozenset()
        await asyncio.sleep(FIRST_S)
        while True:
            try:
                await self.look()
            except (BlobError, OSError) as error:
                log.warning("blobs.not_swept", error=str(error))
            await asyncio.sleep(LOOK_S)

    async def look(self) -> int:
        """Remove what nobody referred to the last time either; returns how many were removed."""
        try:
            blobs = await self._shelves.open()
        except BadTask:
            return 0  # no node has said where blobs are, so there are none
        old = await asyncio.to_thread(_older, blobs)
        suspects = old - await self._referred(old) if old else frozenset()
        doomed, self._suspects = suspects & self._suspects, suspects
        if not doomed:
            return 0
        swept = await asyncio.to_thread(_sweep, blobs, doomed)
        self._suspects -= doomed
        log.info("blobs.swept", count=len(swept.names))
        return len(swept.names)

    async def _referred(self, names: frozenset[str]) -> frozenset[str]:
        """Those of the names that some document refers to."""
        found: set[str] = set()
        for collection in (TASKS, HANDLERS):
            cursor: str | None = None
            while True:
                page = await self._store.find(collection, limit=PAGE, cursor=cursor, fields=REFERRING)
                found.update(_names(document.body for document in page.documents) & names)
                if (cursor := page.cursor) is None:
                    break
                await asyncio.sleep(GAP_S)
        return frozenset(found)


class _AllBut:
    """Every name but those that are to go."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name not in self._names


def _names(bodies: Iterable[Body]) -> set[str]:
    named = (blob_name(body.get(field)) for body in bodies for field in REFERRING)
    return {name for name in named if name is not None}


def _older(blobs: Blobs) -> frozenset[str]:
    """The names of blobs that have reached the grace age."""
    by = blobs.now() - GRACE_S
    old: Iterator[str] = (entry.name for entry in blobs.entries(PREFIX) if entry.published_at < by)
    return frozenset(islice(old, MOST))


def _sweep(blobs: Blobs, doomed: frozenset[str]) -> Swept:
    return blobs.sweep(_AllBut(doomed), grace_s=GRACE_S, now=blobs.now(), under=PREFIX)
