"""What was asked under an Idempotency-Key is remembered for a while."""

from tidemill.app.repeats import KEPT_MS, REPEATS, remember
from tidemill.store import Store


async def test_a_repeat_asks_for_the_same_in_whatever_order(store: Store) -> None:
    assert await remember(store, "a", {"n": 1, "of": 2}, 1000)
    assert await remember(store, "a", {"of": 2, "n": 1}, 2000)
    assert not await remember(store, "a", {"n": 1, "of": 3}, 3000)
    assert await remember(store, "b", {"n": 1, "of": 3}, 4000)


async def test_what_is_old_is_forgotten(store: Store) -> None:
    for at in range(3):
        await remember(store, f"old-{at}", at, 1000 + at)
    await remember(store, "new", 1, 1002 + KEPT_MS)

    kept = [found.key for found in (await store.find(REPEATS)).documents]
    assert kept == ["new", "old-2"]
    assert await remember(store, "old-0", "something else", 1002 + KEPT_MS)
