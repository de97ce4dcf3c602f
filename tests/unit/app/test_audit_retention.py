"""The leader's removal of old entries of the audit log."""

import pytest

from tidemill.app import audit_retention
from tidemill.app.audit import AUDIT, draft, list_entries
from tidemill.app.audit_retention import AuditRetention
from tidemill.cluster import LEADER, LEASES, Grant
from tidemill.store import Fence, Store, open_store

DAY_MS = 86_400_000


async def leading(store: Store) -> Fence:
    lease = (await store.hold(LEASES, [LEADER], "leader", 10**9))[LEADER]
    return Fence(LEASES, LEADER, lease.term)


async def test_what_is_older_than_the_setting_says_goes_and_the_rest_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit_retention, "BATCH", 2)
    monkeypatch.setattr(audit_retention, "GAP_S", 0.0)
    async with open_store("memory:") as store:
        fence, now = await leading(store), await store.now()
        for days in (0, 29, 30, 31, 40, 50, 60):
            await draft(store, "me", "queue create", f"{days} days old", now - days * DAY_MS).write()

        assert await AuditRetention(store, lambda: fence, 30).look(30) == 5

        page = await list_entries(store)
        assert [entry.body["target"] for entry in page.documents] == ["0 days old", "29 days old"]


async def test_one_that_leads_no_more_removes_nothing() -> None:
    async with open_store("memory:") as store:
        old = await leading(store)
        await store.release(LEASES, {LEADER: old.term})
        await draft(store, "me", "queue create", "old", 1).write()

        assert await AuditRetention(store, lambda: old, 1).look(1) == 0
        assert await store.count(AUDIT) == 1


async def test_without_the_setting_all_is_kept() -> None:
    async with open_store("memory:") as store:
        await draft(store, "me", "queue create", "old", 1).write()
        await AuditRetention(store, lambda: Fence(LEASES, LEADER, 1), None).lead(Grant(LEADER, 1, 0.0))

        assert await store.count(AUDIT) == 1
