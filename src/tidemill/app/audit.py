"""The audit log: every change that somebody asked for, by whom, on what, with which outcome.

An entry is written before the change is made, with the outcome `begun`, and completed after it, before
the caller has the answer; or it is written together with the change. So no change goes unrecorded: what
cannot be recorded is not done, and an entry that stays at `begun` tells of a change whose outcome the writer
did not live to record.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

from tidemill.base.errors import TidemillError
from tidemill.base.ids import new_id
from tidemill.base.log import get_logger
from tidemill.store import Collection, Page, Store, StoreError, Write

AUDIT = Collection("audit", fields=(("at", "integer"),), indexes=(("at",),))
BEGUN = "begun"

_TEXT = 400

log = get_logger("tidemill.audit")


@dataclass(slots=True)
class Entry:
    """One change under way. Whoever makes it may fill in `detail` before the entry is completed."""

    store: Store
    key: str
    body: dict[str, Any]
    revision: int | None = None
    """None as long as it is not written."""
    detail: str | None = None

    async def write(self) -> Self:
        """Write it, before the change is made. When this raises, do not make the change."""
        self.revision = await self.store.create(AUDIT, self.key, self.body)
        return self

    def beside(self, outcome: str) -> Write:
        """The completed entry, to be written together with a change that cannot be refused alone."""
        self._end(outcome)
        return Write(AUDIT, self.key, self.body, None)

    async def complete(self, outcome: str) -> None:
        """Record the outcome. When that fails the entry stays as it was, and the log says so."""
        if self.body["outcome"] == outcome:
            return  # it was written beside the change
        self._end(outcome)
        try:
            if self.revision is None:
                await self.write()
            else:
                self.revision = await self.store.replace(AUDIT, self.key, self.body, expect=self.revision)
        except StoreError as error:
            log.error("audit.incomplete", **self.body, error=str(error))  # noqa: TRY400 - one line says it
        else:
            log.debug("audit.recorded", **self.body)  # it is in the store, where people look for it

    def _end(self, outcome: str) -> None:
        self.body |= {"outcome": outcome, "detail": self.detail and self.detail[:_TEXT]}


def draft(store: Store, who: str, action: str, target: str, at: int) -> Entry:
    """The entry of a change that is about to be made; not written yet."""
    body = {"at": at, "who": who, "action": action, "target": target[:_TEXT], "outcome": BEGUN}
    return Entry(store, new_id(), body)


@asynccontextmanager
async def audited(store: Store, who: str, action: str, target: str) -> AsyncIterator[Entry]:
    """Record the change that is made inside: `done`, or `failed` with the error's code."""
    entry = await draft(store, who, action, target, await store.now()).write()
    try:
        yield entry
    except BaseException as error:
        code = error.code if isinstance(error, TidemillError) else type(error).__name__
        await entry.complete(f"failed: {code}")
        raise
    await entry.complete("done")


async def list_entries(store: Store, *, limit: int = 100, cursor: str | None = None) -> Page:
    """Entries, newest first, a page at a time."""
    return await store.find(AUDIT, sort=("-at",), limit=limit, cursor=cursor)
