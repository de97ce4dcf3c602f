"""The audit log: written before, completed after."""

import pytest

from tidemill.app.audit import AUDIT, BEGUN, audited, begin, list_entries
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
    entry = await begin(store, "ada", "GET", "ü" * 10_000)

    await entry.complete("done")

    [document] = (await list_entries(store)).documents
    assert document.body["target"].startswith("üü")
