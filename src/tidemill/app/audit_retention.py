"""For how long the audit log is kept: the leader removes what is older than the setting says."""

import asyncio
from collections.abc import Callable

from tidemill.app.audit import AUDIT
from tidemill.base.log import get_logger
from tidemill.cluster import Grant
from tidemill.store import Done, Fence, Store, Write, le

log = get_logger("tidemill.audit")

REST_S = 3600.0
"""How long the leader rests from look to look."""

BATCH = 250
GAP_S = 0.05
"""The pause from one batch to the next, in which others have the store."""

_DAY_MS = 86_400_000


class AuditRetention:
    """Removes old entries, under the leader's fence: `Duty("audit", retention.lead)`. None keeps all."""

    def __init__(self, store: Store, fence: Callable[[], Fence], keep_days: int | None) -> None:
        self._store = store
        self._fence = fence
        self._keep_days = keep_days

    async def lead(self, _: Grant) -> None:
        """Go on until cancelled. After an error it may be called again."""
        while self._keep_days is not None:
            await self.look(self._keep_days)
            await asyncio.sleep(REST_S)

    async def look(self, keep_days: int) -> int:
        """Remove what is older than that; returns how many entries were removed."""
        by, count = await self._store.now() - keep_days * _DAY_MS, 0
        while gone := await self._remove_some(by):
            count += gone
            await asyncio.sleep(GAP_S)
        if count:
            log.info("audit.removed", count=count, older_than_days=keep_days)
        return count

    async def _remove_some(self, by: int) -> int:
        """Remove the oldest of what was written by that moment; none once another leads."""
        page = await self._store.find(AUDIT, le("at", by), sort=("at",), limit=BATCH)
        fence = self._fence()
        writes = [Write(AUDIT, found.key, None, found.revision, fence) for found in page.documents]
        return sum(isinstance(outcome, Done) for outcome in await self._store.write(writes))
