"""The audit log: written before, completed after."""

import pytest

from tidemill.app.audit import AUDIT, BEGUN, audited, draft, list_entries
from tidemill.store import Conflict, Store, Unavailable


async def test_an_entry_is_there_before_the_change_is_made(store: Store) -> None:
    async with audited(store, "ada", "config set", "ttl_s") as entry:
        document = await store.get(AUDIT, entry.key)

    assert document is not None
    assert document.body["outcome"] == BEGUN


async def test_a_change_that_fails_is_recorded_with_its_code(store: Store) -> None:
    with pytest.raises(Conflict):
        async with audited(store, "ada", "token create", "ci"):
            raise Conflict("taken")

    [document] = (await list_entries(store)).documents
    assert document.body["outcome"] == "failed: store.conflict"


async def test_an_outcome_that_cannot_be_recorded_leaves_the_entry_begun(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def replace(*_: object, **__: object) -> int:
        raise Unavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(store, "replace", replace)
        async with audited(store, "ada", "config set", "ttl_s"):
            pass

    [document] = (await list_entries(store)).documents
    assert document.body["outcome"] == BEGUN


async def test_a_target_of_any_length_is_recorded(store: Store) -> None:
    entry = await draft(store, "ada", "GET", "ü" * 10_000, 1).write()

    await entry.complete("done")

    [document] = (await list_entries(store)).documents
    assert document.body["target"].startswith("üü")


async def test_an_entry_that_was_written_beside_its_change_is_complete(store: Store) -> None:
    entry = draft(store, "ada", "POST", "/api/jobs/submit", 1)
    await store.write([entry.beside("done: 202")])
    before = store.statistics().calls
    await entry.complete("done: 202")

    [document] = (await list_entries(store)).documents
    assert store.statistics().calls - before == 1
    assert (document.body["outcome"], document.revision) == ("done: 202", 1)


async def test_an_entry_whose_change_was_not_written_tells_of_the_failure(store: Store) -> None:
    entry = draft(store, "ada", "POST", "/api/jobs/submit", 1)
    entry.beside("done: 202")
    await entry.complete("failed: 503")

    [document] = (await list_entries(store)).documents
    assert document.body["outcome"] == "failed: 503"
