"""Cases of claiming documents within caps."""

import asyncio

import pytest

from tidemill.store import BadRequest, Cap, Claim, OutcomeUnknown, Store, Term, Write, eq, gt, one_of
from tidemill.store.testing.harness import Harness
from tidemill.store.testing.leases import LONG_MS, SHORT_MS, wait_past
from tidemill.store.testing.writes import TASKS

QUEUED, RUNNING, DONE = -2, 0, 1


async def enqueue(store: Store, n: int, queue: str = "q") -> None:
    await store.write(
        [
            Write(TASKS, f"{queue}-{at:03}", {"queue": queue, "status": QUEUED, "n": at}, None)
            for at in range(n)
        ]
    )


def claim_of(holder: str, n: int = 1, *caps: Cap, queue: str = "q", ttl_ms: int = LONG_MS) -> Claim:
    return Claim(
        where=(eq("queue", queue), eq("status", QUEUED)),
        holder=holder,
        ttl_ms=ttl_ms,
        n=n,
        set=(("status", RUNNING),),
        caps=caps,
    )


class ClaimCases:
    """Claim and slot are one act, so a cap is never exceeded and no document is taken twice."""

    async def test_a_claim_takes_sets_and_holds(self, store: Store) -> None:
        await enqueue(store, 3)
        [taken] = await store.claim(TASKS, claim_of("me"))
        found = await store.get(TASKS, "q-000")

        assert found == taken
        assert taken.body == {"queue": "q", "status": RUNNING, "n": 0}
        assert (taken.key, taken.holder) == ("q-000", "me")
        assert taken.term > 0
        assert taken.expire > await store.now()

    async def test_a_claim_takes_in_order(self, store: Store) -> None:
        await store.write(
            [
                Write(TASKS, key, {"queue": "q", "status": QUEUED, "weight": weight}, None)
                for key, weight in [("a", 2.0), ("b", 1.0), ("c", None), ("d", 2.0)]
            ]
        )
        taken = await store.claim(
            TASKS, Claim((eq("queue", "q"),), "me", LONG_MS, n=10, sort=("-weight", "-key"))
        )

        assert [document.key for document in taken] == ["d", "a", "b", "c"]
        assert [document.term for document in taken] == sorted(document.term for document in taken)

    async def test_the_order_of_a_claim_is_that_before_it_sets_anything(self, store: Store) -> None:
        await store.write(
            [
                Write(TASKS, key, {"queue": queue, "status": QUEUED}, None)
                for key, queue in [("a", "z"), ("b", "y"), ("c", "x")]
            ]
        )
        taken = await store.claim(
            TASKS, Claim((eq("status", QUEUED),), "me", LONG_MS, n=3, sort=("queue",), set=(("queue", "q"),))
        )

        assert [document.key for document in taken] == ["c", "b", "a"]

    async def test_a_claim_takes_no_more_than_there_are(self, store: Store) -> None:
        await enqueue(store, 3)

        assert len(await store.claim(TASKS, claim_of("me", 10))) == 3
        assert await store.claim(TASKS, claim_of("me", 10)) == []

    async def test_what_is_held_is_not_claimed_before_it_expires(self, store: Store) -> None:
        await enqueue(store, 1)
        lease = (await store.hold(TASKS, ["q-000"], "other", SHORT_MS))["q-000"]
        if await store.claim(TASKS, claim_of("me")):
            assert await store.now() > lease.expire
            return
        await wait_past(store, lease.expire)
        [taken] = await store.claim(TASKS, claim_of("me"))

        assert taken.term > lease.term

    async def test_a_finished_document_can_be_released_and_claimed_again(self, store: Store) -> None:
        await enqueue(store, 1)
        [first] = await store.claim(TASKS, claim_of("me"))
        body = {**first.body, "status": QUEUED}
        await store.replace(TASKS, first.key, body, expect=Term(first.term), release=True)
        [second] = await store.claim(TASKS, claim_of("you"))

        assert second.term > first.term
        assert second.holder == "you"

    async def test_a_claim_can_clear_a_field(self, store: Store) -> None:
        await store.create(TASKS, "a", {"queue": "q", "status": QUEUED, "weight": 1.0})
        [taken] = await store.claim(
            TASKS, Claim((eq("status", QUEUED),), "me", LONG_MS, set=(("weight", None), ("status", 0)))
        )

        assert taken.body == {"queue": "q", "status": 0}

    async def test_every_cap_binds(self, store: Store) -> None:
        await enqueue(store, 10)
        running = Cap((eq("queue", "q"), eq("status", RUNNING)), 5)
        mine = Cap((eq("holder", "me"), eq("status", RUNNING)), 2)

        assert len(await store.claim(TASKS, claim_of("me", 9, running, mine))) == 2
        assert await store.claim(TASKS, claim_of("me", 9, running, mine)) == []
        assert len(await store.claim(TASKS, claim_of("you", 9, running))) == 3
        assert await store.claim(TASKS, claim_of("them", 9, running)) == []

    async def test_a_cap_of_nothing_takes_nothing(self, store: Store) -> None:
        await enqueue(store, 2)

        assert await store.claim(TASKS, claim_of("me", 1, Cap((eq("status", RUNNING),), 0))) == []

    async def test_racing_claimers_share_without_overlap(self, harness: Harness) -> None:
        stores = [await harness.connect() for _ in range(4)]
        await enqueue(stores[0], 60)

        async def take_all(at: int, store: Store) -> list[str]:
            mine: list[str] = []
            while taken := await store.claim(TASKS, claim_of(f"n{at}", 3)):
                mine += [document.key for document in taken]
            return mine

        shares = await asyncio.gather(*(take_all(at, store) for at, store in enumerate(stores)))
        taken = [key for share in shares for key in share]

        assert len(taken) >= 50
        assert len(taken) == len(set(taken))

    async def test_racing_claimers_never_exceed_any_cap(self, harness: Harness) -> None:
        stores = [await harness.connect() for _ in range(4)]
        for queue in ("q", "r"):
            await enqueue(stores[0], 30, queue)
        everywhere = Cap((one_of("status", [RUNNING]),), 7)
        seen: list[tuple[int, int]] = []

        async def work(at: int, store: Store) -> int:
            done, queue = 0, "qr"[at % 2]
            in_queue = Cap((eq("queue", queue), eq("status", RUNNING)), 4)
            mine = Cap((eq("holder", f"n{at}"), eq("status", RUNNING)), 3)
            for _ in range(12):
                taken = await store.claim(
                    TASKS, claim_of(f"n{at}", 2, everywhere, in_queue, mine, queue=queue)
                )
                running = await store.count(TASKS, eq("status", RUNNING))
                in_its_queue = await store.count(TASKS, eq("status", RUNNING), eq("queue", queue))
                seen.append((running, in_its_queue))
                for document in taken[at % 2 :]:
                    body = {**document.body, "status": DONE}
                    await store.replace(TASKS, document.key, body, expect=Term(document.term), release=True)
                    done += 1
            return done

        done = sum(await asyncio.gather(*(work(at, store) for at, store in enumerate(stores))))

        assert done > 0
        assert max(running for running, _ in seen) <= 7
        assert max(in_its_queue for _, in_its_queue in seen) <= 4
        assert await stores[0].count(TASKS, eq("status", DONE)) == done

    async def test_a_claim_whose_answer_was_lost_is_found(self, harness: Harness) -> None:
        store, faults = await harness.connect_faulty()
        await enqueue(store, 3)
        faults.plan("answer lost")
        taken = await store.claim(TASKS, claim_of("me", 2))

        assert [document.key for document in taken] == ["q-000", "q-001"]
        assert await store.count(TASKS, eq("status", RUNNING)) == 2

    async def test_a_claim_that_left_no_trace_is_unknown(self, harness: Harness) -> None:
        store, faults = await harness.connect_faulty()
        await enqueue(store, 3)
        faults.plan("request lost")
        with pytest.raises(OutcomeUnknown):
            await store.claim(TASKS, claim_of("me", 2))

    async def test_held_documents_are_renewed_together(self, store: Store) -> None:
        await enqueue(store, 5)
        taken = await store.claim(TASKS, claim_of("me", 4))
        leases = await store.renew(TASKS, {document.key: document.term for document in taken}, 2 * LONG_MS)

        assert len(leases) == 4
        assert all(leases[document.key].expire > document.expire for document in taken)

    async def test_a_claim_sets_declared_fields_only(self, store: Store) -> None:
        with pytest.raises(BadRequest, match="declared"):
            await store.claim(TASKS, Claim((), "me", LONG_MS, set=(("other", 1),)))
        with pytest.raises(BadRequest, match="cannot be searched"):
            await store.claim(TASKS, Claim((gt("other", 1),), "me", LONG_MS))
