"""Cases of holding documents, of terms, and of writes under a fence."""

import asyncio

import pytest

from tidemill.store import BadRequest, Collection, Conflict, Done, Fence, Fenced, Lost, Store, Term, Write
from tidemill.store.testing.harness import Harness
from tidemill.store.testing.writes import NOTES

LEASES = Collection("leases")
LONG_MS = 60_000
SHORT_MS = 30


async def wait_past(store: Store, instant: int) -> None:
    """Return once the store's own time is past the instant."""
    while (now := await store.now()) <= instant:
        await asyncio.sleep((instant - now + 1) / 1000)


class LeaseCases:
    """Of all who want a lease one has it, under a term that nobody had before."""

    async def test_what_nobody_holds_is_taken(self, store: Store) -> None:
        leases = await store.hold(LEASES, ["leader"], "me", LONG_MS)
        lease = leases["leader"]

        assert lease.held_by("me")
        assert lease.term > 0
        assert lease.expire == lease.now + LONG_MS

    async def test_what_another_holds_is_left_alone(self, harness: Harness) -> None:
        one, two = await harness.connect(), await harness.connect()
        mine = (await one.hold(LEASES, ["leader"], "one", LONG_MS))["leader"]
        seen = (await two.hold(LEASES, ["leader"], "two", LONG_MS))["leader"]

        assert (seen.holder, seen.term, seen.expire) == ("one", mine.term, mine.expire)

    async def test_holding_again_extends_under_the_same_term(self, store: Store) -> None:
        first = (await store.hold(LEASES, ["leader"], "me", LONG_MS))["leader"]
        second = (await store.hold(LEASES, ["leader"], "me", 2 * LONG_MS))["leader"]

        assert second.term == first.term
        assert second.expire > first.expire

    async def test_a_lease_is_never_shortened(self, store: Store) -> None:
        first = (await store.hold(LEASES, ["leader"], "me", LONG_MS))["leader"]
        held = (await store.hold(LEASES, ["leader"], "me", 1))["leader"]
        renewed = (await store.renew(LEASES, {"leader": first.term}, 1))["leader"]

        assert held.expire == renewed.expire == first.expire

    async def test_a_term_is_higher_than_all_before_also_for_one_who_wrote_without_a_new_one(
        self, harness: Harness
    ) -> None:
        one, two = await harness.connect(), await harness.connect()
        kept = (await one.hold(LEASES, ["kept"], "one", LONG_MS))["kept"]
        for keep in (
            lambda: one.renew(LEASES, {"kept": kept.term}, LONG_MS),
            lambda: one.hold(LEASES, ["kept"], "one", LONG_MS),
            lambda: one.release(LEASES, {"kept": kept.term}),
        ):
            before = (await two.hold(LEASES, ["leader"], "two", LONG_MS))["leader"]
            await two.release(LEASES, {"leader": before.term})
            await keep()
            after = (await one.hold(LEASES, ["leader"], "one", LONG_MS))["leader"]
            await one.release(LEASES, {"leader": after.term})

            assert after.term > before.term

    async def test_an_expired_lease_is_taken_under_a_higher_term(self, harness: Harness) -> None:
        one, two = await harness.connect(), await harness.connect()
        first = (await one.hold(LEASES, ["leader"], "one", SHORT_MS))["leader"]
        await wait_past(two, first.expire)
        second = (await two.hold(LEASES, ["leader"], "two", LONG_MS))["leader"]

        assert second.held_by("two")
        assert second.term > first.term

    async def test_ones_own_expired_lease_is_taken_under_a_higher_term(self, store: Store) -> None:
        first = (await store.hold(LEASES, ["leader"], "me", SHORT_MS))["leader"]
        await wait_past(store, first.expire)
        second = (await store.hold(LEASES, ["leader"], "me", LONG_MS))["leader"]

        assert second.term > first.term

    async def test_several_are_held_in_one_call(self, harness: Harness) -> None:
        one, two = await harness.connect(), await harness.connect()
        await one.hold(LEASES, ["b"], "one", LONG_MS)
        seen = await two.hold(LEASES, ["a", "b", "c"], "two", LONG_MS)

        assert {key: lease.holder for key, lease in seen.items()} == {"a": "two", "b": "one", "c": "two"}

    async def test_of_racing_holders_one_wins(self, harness: Harness) -> None:
        stores = [await harness.connect() for _ in range(8)]
        seen = await asyncio.gather(
            *(store.hold(LEASES, ["leader"], f"n{at}", LONG_MS) for at, store in enumerate(stores))
        )
        won = [at for at, leases in enumerate(seen) if leases["leader"].held_by(f"n{at}")]

        assert len(won) == 1

    async def test_of_racing_heirs_one_wins(self, harness: Harness) -> None:
        stores = [await harness.connect() for _ in range(6)]
        first = (await stores[0].hold(LEASES, ["leader"], "dead", SHORT_MS))["leader"]
        await wait_past(stores[0], first.expire)
        seen = await asyncio.gather(
            *(store.hold(LEASES, ["leader"], f"n{at}", LONG_MS) for at, store in enumerate(stores))
        )
        terms = {
            at: leases["leader"].term for at, leases in enumerate(seen) if leases["leader"].held_by(f"n{at}")
        }

        assert len(terms) == 1
        assert min(terms.values()) > first.term

    async def test_renewing_extends_what_stands(self, store: Store) -> None:
        first = (await store.hold(LEASES, ["leader"], "me", LONG_MS))["leader"]
        renewed = (await store.renew(LEASES, {"leader": first.term}, 2 * LONG_MS))["leader"]

        assert (renewed.holder, renewed.term) == ("me", first.term)
        assert renewed.expire > first.expire

    async def test_an_expired_lease_is_not_renewed(self, store: Store) -> None:
        first = (await store.hold(LEASES, ["leader"], "me", SHORT_MS))["leader"]
        await wait_past(store, first.expire)
        renewed = (await store.renew(LEASES, {"leader": first.term}, LONG_MS))["leader"]

        assert renewed.expire == first.expire
        assert not renewed.held_by("me")

    async def test_a_stale_term_renews_and_releases_nothing(self, harness: Harness) -> None:
        one, two = await harness.connect(), await harness.connect()
        first = (await one.hold(LEASES, ["leader"], "one", SHORT_MS))["leader"]
        await wait_past(two, first.expire)
        second = (await two.hold(LEASES, ["leader"], "two", LONG_MS))["leader"]
        await one.release(LEASES, {"leader": first.term})
        seen = (await one.renew(LEASES, {"leader": first.term}, LONG_MS))["leader"]

        assert (seen.holder, seen.term, seen.expire) == ("two", second.term, second.expire)

    async def test_renewing_what_is_not_there_returns_nothing(self, store: Store) -> None:
        assert await store.renew(LEASES, {"nothing": 1}, LONG_MS) == {}

    async def test_a_released_lease_is_free_at_once(self, harness: Harness) -> None:
        one, two = await harness.connect(), await harness.connect()
        first = (await one.hold(LEASES, ["leader"], "one", LONG_MS))["leader"]
        await one.release(LEASES, {"leader": first.term})
        second = (await two.hold(LEASES, ["leader"], "two", LONG_MS))["leader"]
        document = await one.get(LEASES, "leader")

        assert second.held_by("two")
        assert second.term > first.term
        assert document is not None
        assert document.holder == "two"

    async def test_release_sets_expire_to_zero(self, store: Store) -> None:
        lease = (await store.hold(LEASES, ["leader"], "me", LONG_MS))["leader"]
        await store.release(LEASES, {"leader": lease.term})
        document = await store.get(LEASES, "leader")

        assert document is not None
        assert document.expire == 0

    async def test_a_term_is_not_used_again_after_a_delete(self, store: Store) -> None:
        first = (await store.hold(LEASES, ["leader"], "me", LONG_MS))["leader"]
        document = await store.get(LEASES, "leader")
        assert document is not None
        await store.delete(LEASES, "leader", expect=document.revision)
        second = (await store.hold(LEASES, ["leader"], "me", LONG_MS))["leader"]

        assert second.term > first.term

    async def test_a_hold_moves_neither_body_nor_revision(self, store: Store) -> None:
        revision = await store.create(NOTES, "a", {"n": 1})
        lease = (await store.hold(NOTES, ["a"], "me", LONG_MS))["a"]
        await store.replace(NOTES, "a", {"n": 2}, expect=revision)
        found = await store.get(NOTES, "a")

        assert found is not None
        assert (found.body, found.holder, found.term, found.expire) == (
            {"n": 2},
            "me",
            lease.term,
            lease.expire,
        )

    async def test_a_write_under_a_standing_term_is_accepted(self, store: Store) -> None:
        lease = (await store.hold(LEASES, ["leader"], "me", LONG_MS))["leader"]
        fence = Fence(LEASES, "leader", lease.term)
        revision = await store.create(NOTES, "a", {"n": 1}, fence=fence)
        revision = await store.replace(NOTES, "a", {"n": 2}, expect=revision, fence=fence)
        await store.delete(NOTES, "a", expect=revision, fence=fence)

        assert await store.get(NOTES, "a") is None

    async def test_a_write_under_a_passed_term_is_refused(self, harness: Harness) -> None:
        one, two = await harness.connect(), await harness.connect()
        first = (await one.hold(LEASES, ["leader"], "one", SHORT_MS))["leader"]
        stale = Fence(LEASES, "leader", first.term)
        revision = await one.create(NOTES, "a", {"n": 1})
        await wait_past(two, first.expire)
        await two.hold(LEASES, ["leader"], "two", LONG_MS)

        with pytest.raises(Fenced):
            await one.create(NOTES, "b", {}, fence=stale)
        with pytest.raises(Fenced):
            await one.replace(NOTES, "a", {}, expect=revision, fence=stale)
        with pytest.raises(Fenced):
            await one.delete(NOTES, "a", expect=revision, fence=stale)
        assert await one.write([Write(NOTES, "c", {}, None, stale)]) == [Lost()]

    async def test_a_write_under_an_expired_or_released_term_is_refused(self, store: Store) -> None:
        first = (await store.hold(LEASES, ["leader"], "me", SHORT_MS))["leader"]
        await wait_past(store, first.expire)
        with pytest.raises(Fenced):
            await store.create(NOTES, "a", {}, fence=Fence(LEASES, "leader", first.term))
        second = (await store.hold(LEASES, ["leader"], "me", LONG_MS))["leader"]
        await store.release(LEASES, {"leader": second.term})
        with pytest.raises(Fenced):
            await store.create(NOTES, "a", {}, fence=Fence(LEASES, "leader", second.term))

    async def test_a_batch_mixes_fenced_and_free_writes(self, store: Store) -> None:
        lease = (await store.hold(LEASES, ["leader"], "me", LONG_MS))["leader"]
        good, bad = Fence(LEASES, "leader", lease.term), Fence(LEASES, "leader", lease.term + 1)
        outcomes = await store.write(
            [
                Write(NOTES, "a", {}, None, good),
                Write(NOTES, "b", {}, None, bad),
                Write(NOTES, "c", {}, None),
            ]
        )

        assert [type(outcome) for outcome in outcomes] == [Done, Lost, Done]

    async def test_no_fenced_write_lands_after_the_term_has_passed(self, harness: Harness) -> None:
        """Two leaders race for many short terms, each writing its term as long as it is accepted."""
        stores = [await harness.connect() for _ in range(3)]
        await stores[0].create(NOTES, "ledger", {"terms": []})
        accepted = 0

        async def lead(name: str, store: Store) -> None:
            nonlocal accepted
            for _ in range(25):
                lease = (await store.hold(LEASES, ["leader"], name, 5))["leader"]
                if lease.holder != name:
                    continue
                found = await store.get(NOTES, "ledger")
                assert found is not None
                try:
                    await store.replace(
                        NOTES,
                        "ledger",
                        {"terms": [*found.body["terms"], lease.term]},
                        expect=found.revision,
                        fence=Fence(LEASES, "leader", lease.term),
                    )
                    accepted += 1
                except Conflict:
                    continue

        await asyncio.gather(*(lead(f"n{at}", store) for at, store in enumerate(stores)))
        found = await stores[0].get(NOTES, "ledger")

        assert found is not None
        assert len(found.body["terms"]) == accepted > 0
        assert found.body["terms"] == sorted(found.body["terms"])

    async def test_a_document_can_be_written_under_its_own_term(self, store: Store) -> None:
        await store.create(NOTES, "a", {"n": 1})
        lease = (await store.hold(NOTES, ["a"], "me", LONG_MS))["a"]
        await store.replace(NOTES, "a", {"n": 2}, expect=Term(lease.term))
        await store.replace(NOTES, "a", {"n": 3}, expect=Term(lease.term), release=True)
        heir = (await store.hold(NOTES, ["a"], "you", LONG_MS))["a"]

        assert heir.held_by("you")
        with pytest.raises(Fenced):
            await store.replace(NOTES, "a", {"n": 4}, expect=Term(lease.term))
        with pytest.raises(Fenced):
            await store.delete(NOTES, "a", expect=Term(lease.term))
        found = await store.get(NOTES, "a")
        assert found is not None
        assert found.body == {"n": 3}

    async def test_a_hold_needs_a_holder_and_a_time(self, store: Store) -> None:
        with pytest.raises(BadRequest):
            await store.hold(LEASES, ["leader"], "", LONG_MS)
        with pytest.raises(BadRequest):
            await store.hold(LEASES, ["leader"], "me", 0)

    async def test_time_is_the_stores_and_never_goes_back(self, harness: Harness) -> None:
        one, two = await harness.connect(), await harness.connect()
        times = [await (one, two)[at % 2].now() for at in range(20)]

        assert times == sorted(times)
