"""Many writes as few statements."""

import asyncio
from collections.abc import Awaitable, Callable

import psycopg

from tidemill.store import Collection, Done, Fence, Store, Term, Write
from tidemill.store.backends.postgres import batch

NOTES = Collection("notes")
LEASES = Collection("leases")


class TestBatch:
    def test_writes_of_one_kind_are_one_statement_in_order_of_keys(self) -> None:
        writes = [Write(NOTES, key, {}, None) for key in ["c", "a", "b"]]

        assert batch.plan(writes) == [[1, 2, 0]]

    def test_a_document_is_written_once_per_statement(self) -> None:
        writes = [Write(NOTES, "a", {}, None), Write(NOTES, "b", {}, None), Write(NOTES, "a", {}, None)]

        assert batch.plan(writes) == [[0, 1], [2]]

    def test_a_write_stays_behind_what_its_fence_depends_on(self) -> None:
        fence = Fence(LEASES, "x", 1)
        writes = [
            Write(NOTES, "a", {}, None, fence),
            Write(LEASES, "x", {}, Term(1), release=True),
            Write(NOTES, "b", {}, None, fence),
        ]

        assert batch.plan(writes) == [[0], [1], [2]]

    async def test_a_deadlock_is_undone_and_done_again(
        self, store: Store, rival: psycopg.AsyncConnection, blocked: Callable[[int], Awaitable[None]]
    ) -> None:
        outcomes = await store.write([Write(NOTES, key, {"n": 1}, None) for key in "ab"])
        revisions = [outcome.revision for outcome in outcomes if isinstance(outcome, Done)]
        touch = "UPDATE tidemill_notes SET nonce = nonce WHERE key = %s"
        # The other side finds the deadlock first, and so is the one that gives way.
        await rival.execute("SET deadlock_timeout = '60s'")
        await rival.execute("BEGIN")
        await rival.execute(touch, ["b"])
        writing = asyncio.create_task(
            store.write(
                [Write(NOTES, key, {"n": 2}, revision) for key, revision in zip("ab", revisions, strict=True)]
            )
        )
        await blocked(1)
        await rival.execute(touch, ["a"])
        await rival.execute("COMMIT")

        assert all(isinstance(outcome, Done) for outcome in await writing)
