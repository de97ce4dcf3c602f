"""What statements see of each other when they meet on a row."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import LiteralString

import psycopg
import pytest

from tidemill.store import (
    Cap,
    Claim,
    Collection,
    Done,
    Fence,
    Lost,
    Store,
    Term,
    Write,
    eq,
    one_of,
    open_store,
)
from tidemill.store.backends.postgres import PostgresBackend, batch, claims, statements
from tidemill.store.backends.postgres.values import Texts

NOTES = Collection("notes")
LEASES = Collection("leases")
LONG_MS = 60_000


class TestFence:
    """A takeover and a fenced write of the old term never interleave."""

    KIND = batch.kind_of(Write(NOTES, "a", {}, 1, Fence(LEASES, "leader", 1)))

    async def test_a_takeover_waits_for_the_fenced_write_before_it(
        self, store: Store, rival: psycopg.AsyncConnection, blocked: Callable[[int], Awaitable[None]]
    ) -> None:
        revision = await store.create(NOTES, "a", {"n": 1})
        lease = (await store.hold(LEASES, ["leader"], "one", 300))["leader"]
        await rival.execute("BEGIN")
        params = ("leader", lease.term, 7, '{"n":2}', "a", revision)
        written = await rival.execute(statements.write_one(self.KIND), params)
        assert await written.fetchone() is not None
        while await store.now() <= lease.expire:
            pass
        takeover = asyncio.create_task(store.hold(LEASES, ["leader"], "two", LONG_MS))
        await blocked(1)
        assert not takeover.done()
        await rival.execute("COMMIT")
        taken = (await takeover)["leader"]
        found = await store.get(NOTES, "a")
        assert found is not None
        late = Write(NOTES, "a", {"n": 3}, found.revision, Fence(LEASES, "leader", lease.term))

        assert taken.held_by("two")
        assert found.body == {"n": 2}
        assert found.revision < taken.term
        assert await store.write([late]) == [Lost()]

    async def test_a_fenced_write_behind_an_unfinished_takeover_is_refused(
        self, store: Store, rival: psycopg.AsyncConnection, blocked: Callable[[int], Awaitable[None]]
    ) -> None:
        revision = await store.create(NOTES, "a", {"n": 1})
        lease = (await store.hold(LEASES, ["leader"], "one", LONG_MS))["leader"]
        fence = Fence(LEASES, "leader", lease.term)
        await rival.execute("BEGIN")
        await rival.execute("UPDATE tidemill_leases SET expire = 0")
        params = {"keys": Texts(["leader"]), "holder": "two", "ttl": LONG_MS}
        await rival.execute(statements.hold(LEASES), params)
        writing = asyncio.create_task(store.write([Write(NOTES, "a", {"n": 2}, revision, fence)]))
        await blocked(1)
        await rival.execute("COMMIT")
        outcomes = await writing
        found = await store.get(NOTES, "a")

        assert outcomes == [Lost()]
        assert found is not None
        assert found.body == {"n": 1}

    async def test_no_fenced_write_is_accepted_after_a_takeover(self, postgres_url: str) -> None:
        """What the new holder reads once it has the lease is the last word of those before it."""
        accepted: list[tuple[int, int]] = []
        taken_over: dict[int, int] = {}

        def too_few() -> bool:
            """Where the machine is slow, most writes come too late for a lease as short as these."""
            return len(taken_over) < 40 or len({term for term, _ in accepted}) < 6

        async def contend(name: str) -> None:
            async with open_store(postgres_url, connections=2) as store:
                while too_few():
                    # A name of its own each time, so that it takes the lease over and does not extend it.
                    holder = f"{name}-{len(taken_over)}"
                    lease = (await store.hold(LEASES, ["leader"], holder, 10))["leader"]
                    fence = Fence(LEASES, "leader", lease.term)
                    for _ in range(3):
                        found = await store.get(NOTES, "a")
                        assert found is not None
                        taken_over.setdefault(lease.term, found.revision)
                        [outcome] = await store.write([Write(NOTES, "a", {}, found.revision, fence)])
                        if isinstance(outcome, Done):
                            accepted.append((lease.term, outcome.revision))

        async with open_store(postgres_url) as store:
            await store.create(NOTES, "a", {})
        await asyncio.gather(*(contend(f"n{at}") for at in range(4)))
        late = [
            (term, revision)
            for term, revision in accepted
            for later, last_word in taken_over.items()
            if term < later and revision > last_word
        ]

        assert late == []

    async def test_a_batch_lets_no_fenced_write_past_the_end_of_its_lease(self, store: Store) -> None:
        lease = (await store.hold(LEASES, ["leader"], "one", LONG_MS))["leader"]
        fence = Fence(LEASES, "leader", lease.term)
        before, end, after = await store.write(
            [
                Write(NOTES, "a", {}, None, fence),
                Write(LEASES, "leader", {}, Term(lease.term), release=True),
                Write(NOTES, "b", {}, None, fence),
            ]
        )

        assert isinstance(before, Done)
        assert isinstance(end, Done)
        assert after == Lost()


class TestClaim:
    @pytest.mark.parametrize("statistics", ["ANALYZE tidemill_tasks", "SELECT 1"], ids=["known", "unknown"])
    async def test_a_claim_looks_at_no_more_than_it_takes(
        self, store: Store, rival: psycopg.AsyncConnection, statistics: LiteralString
    ) -> None:
        tasks = Collection("tasks", fields=(("status", "integer"),), indexes=(("status",),))
        await store.write([Write(tasks, f"{at:05}", {"status": -2}, None) for at in range(5000)])
        claim = Claim(
            (eq("status", -2),), "me", LONG_MS, set=(("status", 0),), caps=(Cap((eq("status", 0),), 9),)
        )
        backend = store._backend
        assert isinstance(backend, PostgresBackend)
        text, params = claims.requests(tasks, claim, 1)[-1]
        await rival.execute(statistics)
        plan = str(await backend._pool.rows(f"EXPLAIN {text}", params))

        assert plan.count("Index") >= 3
        assert "Seq Scan" not in plan
        assert "Sort" not in plan

    async def test_who_counts_the_same_documents_takes_the_same_lock(self) -> None:
        tasks = Collection("tasks", fields=(("status", "integer"),))
        wheres = [
            (one_of("status", [0, 1]), eq("holder", "me")),
            (eq("holder", "me"), one_of("status", [1, 0])),
            (eq("holder", "me"), one_of("status", [1, 2])),
        ]
        locks = [
            claims.requests(tasks, Claim((), "me", 1, caps=(Cap(where, limit),)), 1)[0]
            for limit, where in enumerate(wheres)
        ]

        assert locks[0] == locks[1]
        assert locks[0] != locks[2]


class TestHold:
    async def test_what_others_hold_is_neither_locked_nor_written(
        self, store: Store, postgres_url: str, rival: psycopg.AsyncConnection
    ) -> None:
        await store.hold(LEASES, ["leader"], "one", LONG_MS)
        versions = "SELECT xmin::text, xmax::text, ctid::text FROM tidemill_leases"
        before = await (await rival.execute(versions)).fetchall()
        await rival.execute("BEGIN")
        await rival.execute("SELECT 1 FROM tidemill_leases FOR UPDATE")
        seen = (await store.hold(LEASES, ["leader"], "two", LONG_MS))["leader"]
        await rival.execute("ROLLBACK")
        async with open_store(postgres_url) as other:
            await other.hold(LEASES, ["leader"], "two", LONG_MS)
            await other.renew(LEASES, {"leader": 1}, LONG_MS)
        after = await (await rival.execute(versions)).fetchall()

        assert seen.holder == "one"
        assert [(xmin, ctid) for xmin, _, ctid in before] == [(xmin, ctid) for xmin, _, ctid in after]

    async def test_a_holder_that_waited_in_vain_learns_who_came_first(
        self, store: Store, rival: psycopg.AsyncConnection, blocked: Callable[[int], Awaitable[None]]
    ) -> None:
        first = (await store.hold(LEASES, ["leader"], "one", LONG_MS))["leader"]
        await store.release(LEASES, {"leader": first.term})
        await rival.execute("BEGIN")
        params = {"keys": Texts(["leader"]), "holder": "two", "ttl": LONG_MS}
        await rival.execute(statements.hold(LEASES), params)
        holding = asyncio.create_task(store.hold(LEASES, ["leader"], "three", LONG_MS))
        await blocked(1)
        await rival.execute("COMMIT")
        seen = (await holding)["leader"]

        assert seen.holder == "two"
        assert seen.term > first.term
        assert seen.expire > seen.now

    async def test_a_holder_whose_insert_lost_learns_who_came_first(
        self, store: Store, rival: psycopg.AsyncConnection, blocked: Callable[[int], Awaitable[None]]
    ) -> None:
        await store.get(LEASES, "leader")
        await rival.execute("BEGIN")
        params = {"keys": Texts(["leader"]), "holder": "two", "ttl": LONG_MS}
        await rival.execute(statements.hold(LEASES), params)
        holding = asyncio.create_task(store.hold(LEASES, ["leader", "other"], "three", LONG_MS))
        await blocked(1)
        await rival.execute("COMMIT")
        seen = await holding

        assert {key: lease.holder for key, lease in seen.items()} == {"leader": "two", "other": "three"}

    async def test_a_renewal_that_waited_in_vain_sees_the_new_term(
        self, store: Store, rival: psycopg.AsyncConnection, blocked: Callable[[int], Awaitable[None]]
    ) -> None:
        first = (await store.hold(LEASES, ["leader"], "one", LONG_MS))["leader"]
        await rival.execute("BEGIN")
        await rival.execute("UPDATE tidemill_leases SET term = term + 1, holder = 'two'")
        renewing = asyncio.create_task(store.renew(LEASES, {"leader": first.term}, LONG_MS))
        await blocked(1)
        await rival.execute("COMMIT")
        seen = (await renewing)["leader"]

        assert (seen.holder, seen.term) == ("two", first.term + 1)
