"""The audit log: every change that somebody asked for, by whom, on what, with which outcome.

An entry is written before the change is made, with the outcome `begun`, and completed after it, before
the caller has the answer. So no change goes unrecorded: what cannot be recorded is not done, and an
entry that stays at `begun` tells of a change whose outcome the writer did not live to record.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tidemill.base.errors import TidemillError
from tidemill.base.ids import new_id
from tidemill.base.log import get_logger
from tidemill.store import Collection, Page, Store, StoreError

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
    revision: int
    detail: str | None = None

    async def complete(self, outcome: str) -> None:
        """Record the outcome. When that fails the entry stays at `begun`, and the log says so."""
        self.body |= {"outcome": outcome, "detail": self.detail and self.detail[:_TEXT]}
        try:
            self.revision = await self.store.replace(AUDIT, self.key, self.body, expect=self.revision)
        except StoreError as error:
            log.error("audit.incomplete", **self.body, error=str(error))  # noqa: TRY400 - one line says it
        else:
            log.debug("audit.recorded", **self.body)  # it is in the store, where people look for it


async def begin(store: Store, who: str, action: str, target: str, at: int | None = None) -> Entry:
    """Write the entry of a change that is about to be made, `at` or now by the store's time.

    When this raises, do not make the change.
    """
    body = {
        "at": await store.now() if at is None else at,
        "who": who,
        "action": action,
        "target": target[:_TEXT],
        "outcome": BEGUN,
    }
    key = new_id()
    return Entry(store, key, body, await store.create(AUDIT, key, body))


@asynccontextmanager
async def audited(store: Store, who: str, action: str, target: str) -> AsyncIterator[Entry]:
    """Record the change that is made inside: `done`, or `failed` with the error's code."""
    entry = await begin(store, who, action, target)
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
