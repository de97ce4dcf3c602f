"""Connections: how they are set up, and what becomes of a call when one breaks."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

import psycopg
import pytest
import pytest_asyncio
import uvloop

from proxy import CuttingProxy
from servers import Postgres, PostgresServer
from tidemill.store import (
    BadRequest,
    Cap,
    Claim,
    Collection,
    Document,
    Done,
    OutcomeUnknown,
    ReadOnly,
    Store,
    Unavailable,
    Unknown,
    Write,
    eq,
    open_store,
)
from tidemill.store.backends.postgres import PostgresBackend, claims

NOTES = Collection("notes")
TASKS = Collection(
    "tasks",
    fields=(("queue", "text"), ("status", "integer"), ("weight", "real")),
    indexes=(("queue", "status"),),
)
LONG_MS = 60_000


class TestSettings:
    @pytest.mark.parametrize(("given", "used"), [("off", "on"), ("local", "on"), ("remote_apply",) * 2])
    async def test_an_acknowledged_write_is_on_disk(
        self, postgres_url: str, given: str, used: str, rival: psycopg.AsyncConnection
    ) -> None:
        database = urlsplit(postgres_url).path[1:]
        await rival.execute(f"ALTER DATABASE {database} SET synchronous_commit = {given}")
        async with open_store(postgres_url) as store:
            backend = store._backend
            assert isinstance(backend, PostgresBackend)

            assert await backend._pool.rows("SHOW synchronous_commit") == [(used,)]

    async def test_the_error_of_a_dead_server_names_it_without_the_password(self) -> None:
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1 cannot be reached") as refused:
            await open_store("postgresql://me:secret@127.0.0.1:1/db").open()

        assert "secret" not in str(refused.value)
        assert not refused.value.maybe_applied

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://me:sec@ret@host/db",
            "postgresql://me:sec/ret@host/db",
            "postgresql://me:sec@ret/@host/db",
        ],
    )
    def test_an_address_with_a_raw_password_is_refused_without_repeating_it(self, url: str) -> None:
        with pytest.raises(BadRequest, match="%40") as refused:
            open_store(url)

        assert "ret" not in str(refused.value)

    async def test_a_database_of_another_encoding_is_refused(
        self, postgres_server: Postgres, rival: psycopg.AsyncConnection
    ) -> None:
        await rival.execute(
            "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        )
        try:
            with pytest.raises(BadRequest, match="LATIN1"):
                await open_store(urlsplit(postgres_server.url)._replace(path="/latin").geturl()).open()
        finally:
            postgres_server.drop_database("latin")

    async def test_a_role_without_rights_is_told_which(
        self, store: Store, postgres_url: str, rival: psycopg.AsyncConnection
    ) -> None:
        role = "stranger"
        await rival.execute(f"CREATE ROLE {role} LOGIN")
        try:
            parts = urlsplit(postgres_url)
            url = parts._replace(netloc=f"{role}@{parts.hostname}:{parts.port}").geturl()
            with pytest.raises(BadRequest, match="grant the role"):
                await open_store(url).open()
        finally:
            await rival.execute(f"DROP ROLE {role}")

    async def test_a_standby_is_refused(self, doomed_postgres: PostgresServer) -> None:
        doomed_postgres.stop()
        (doomed_postgres._folder / "data" / "standby.signal").touch()
        doomed_postgres.start()
        with pytest.raises(ReadOnly, match="hot standby"):
            await open_store(doomed_postgres.url).open()

    def test_it_works_on_uvloop(self, postgres_url: str) -> None:
        async def walk() -> int:
            async with open_store(postgres_url) as store, store.watch(NOTES, poll_s=20) as watch:
                await store.write([Write(NOTES, key, {}, None) for key in "abc"])
                assert await watch.wait()
                return await store.count(NOTES)

        assert uvloop.run(walk()) == 3


class TestNetwork:
    @pytest_asyncio.fixture
    async def proxy(self, postgres_url: str) -> AsyncIterator[CuttingProxy]:
        parts = urlsplit(postgres_url)
        assert parts.hostname is not None
        assert parts.port is not None
        async with CuttingProxy(parts.hostname, parts.port) as proxy:
            yield proxy

    @pytest.fixture
    def url(self, postgres_url: str, proxy: CuttingProxy) -> str:
        parts = urlsplit(postgres_url)
        return parts._replace(netloc=f"{parts.username}@127.0.0.1:{proxy.port}").geturl()

    async def test_a_write_whose_reply_is_lost_has_happened_once(self, proxy: CuttingProxy, url: str) -> None:
        async with open_store(url) as store:
            first = await store.create(NOTES, "counter", {"n": 1})
            proxy.lose_next_reply(b"counter")
            second = await store.replace(NOTES, "counter", {"n": 2}, expect=first)
            found = await store.get(NOTES, "counter")
            statistics = store.statistics()

        assert proxy.lost == 1
        assert statistics.settled == 1
        assert statistics.unavailable == 1
        assert found is not None
        assert (found.body, found.revision) == ({"n": 2}, second)

    async def test_a_write_whose_request_is_lost_is_sent_again(self, proxy: CuttingProxy, url: str) -> None:
        async with open_store(url) as store:
            first = await store.create(NOTES, "counter", {"n": 1})
            proxy.lose_next_request(b"counter")
            second = await store.replace(NOTES, "counter", {"n": 2}, expect=first)
            found = await store.get(NOTES, "counter")

        assert proxy.lost == 1
        assert found is not None
        assert (found.body, found.revision) == ({"n": 2}, second)

    async def test_a_batch_whose_reply_is_lost_is_settled_write_by_write(
        self, proxy: CuttingProxy, url: str
    ) -> None:
        async with open_store(url) as store:
            first = await store.create(NOTES, "a", {"n": 1})
            await store.create(TASKS, "b", {"n": 1})
            proxy.lose_next_reply(b"unheard")
            outcomes = await store.write(
                [
                    Write(NOTES, "a", {"n": "unheard"}, first),
                    Write(NOTES, "new", {"n": "unheard"}, None),
                    Write(TASKS, "b", {"n": "unheard"}, None),
                ]
            )
            notes = (await store.find(NOTES)).documents

        assert proxy.lost == 1
        assert [type(outcome) for outcome in outcomes] == [Done, Done, Unknown]
        assert [note.body for note in notes] == [{"n": "unheard"}] * 2

    async def test_a_claim_whose_reply_is_lost_is_found(self, proxy: CuttingProxy, url: str) -> None:
        async with open_store(url) as store:
            await store.write([Write(TASKS, key, {"status": 0}, None) for key in "abc"])
            proxy.lose_next_reply(b"claimant")
            taken = await store.claim(TASKS, Claim((eq("status", 0),), "claimant", LONG_MS, n=2))

        assert proxy.lost == 1
        assert [document.key for document in taken] == ["a", "b"]

    async def test_a_lost_connection_is_replaced_without_a_word(self, proxy: CuttingProxy, url: str) -> None:
        async with open_store(url, connections=4) as store:
            await asyncio.gather(*(store.create(NOTES, f"{at}", {}) for at in range(4)))
            proxy.cut()
            await asyncio.gather(*(store.create(NOTES, f"more {at}", {}) for at in range(4)))

            assert store.statistics().unavailable == 0

    async def test_a_refused_connection_is_not_a_maybe(self, proxy: CuttingProxy, url: str) -> None:
        async with open_store(url) as store:
            await store.create(NOTES, "a", {})
            proxy.refuse()
            with pytest.raises(Unavailable) as refused:
                await store.create(NOTES, "b", {})
            assert not refused.value.maybe_applied
            proxy.heal()
            await store.create(NOTES, "b", {})

    async def test_a_silent_network_ends_a_call_in_time_and_heals(
        self, proxy: CuttingProxy, url: str
    ) -> None:
        async with open_store(url, timeout_s=2.0) as store:
            first = await store.create(NOTES, "a", {"n": 1})
            proxy.stall()
            began = time.monotonic()
            with pytest.raises(Unavailable):
                await store.get(NOTES, "a")
            with pytest.raises(OutcomeUnknown):
                await store.replace(NOTES, "a", {"n": 2}, expect=first)
            took_s = time.monotonic() - began
            proxy.heal()
            found = await store.get(NOTES, "a")

        assert took_s < 20
        assert found is not None

    async def test_the_last_words_of_a_server_leave_a_write_open(
        self, store: Store, rival: psycopg.AsyncConnection, blocked: Callable[[int], Awaitable[None]]
    ) -> None:
        revision = await store.create(NOTES, "a", {"n": 1})
        await rival.execute("BEGIN")
        await rival.execute("SELECT 1 FROM tidemill_notes FOR UPDATE")
        writing = asyncio.create_task(store._backend.write([Write(NOTES, "a", {"n": 2}, revision)], 1))
        await blocked(1)
        await rival.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        with pytest.raises(Unavailable, match="terminating connection") as lost:
            await writing
        await rival.execute("ROLLBACK")

        assert lost.value.maybe_applied
        assert await store.replace(NOTES, "a", {"n": 2}, expect=revision) > revision

    async def test_a_cancelled_call_leaves_its_connection_behind(
        self, store: Store, rival: psycopg.AsyncConnection, blocked: Callable[[int], Awaitable[None]]
    ) -> None:
        revision = await store.create(NOTES, "a", {"n": 1})
        await rival.execute("BEGIN")
        await rival.execute("SELECT 1 FROM tidemill_notes FOR UPDATE")
        stuck = [asyncio.create_task(store.replace(NOTES, "a", {"n": 2}, expect=revision)) for _ in range(4)]
        await blocked(4)
        for task in stuck:
            task.cancel()
        began = time.monotonic()
        await asyncio.gather(*stuck, return_exceptions=True)
        others = await asyncio.gather(*(store.get(NOTES, "a") for _ in range(8)))
        took_s = time.monotonic() - began
        await rival.execute("ROLLBACK")

        assert all(task.cancelled() for task in stuck)
        assert all(other is not None and other.body == {"n": 1} for other in others)
        assert took_s < 20

    async def test_a_cancelled_claim_leaves_nothing_locked(
        self, store: Store, rival: psycopg.AsyncConnection, blocked: Callable[[int], Awaitable[None]]
    ) -> None:
        await store.create(TASKS, "a", {"status": 0})
        claim = Claim((eq("status", 0),), "me", LONG_MS, set=(("status", 1),), caps=(Cap((), 5),))
        lock, params = claims.requests(TASKS, claim, 1)[0]
        await rival.execute("BEGIN")
        await rival.execute(lock, params)
        claiming = asyncio.create_task(store.claim(TASKS, claim))
        await blocked(1)
        claiming.cancel()
        await asyncio.gather(claiming, return_exceptions=True)
        await rival.execute("COMMIT")
        await blocked(0)
        found = await store.get(TASKS, "a")
        assert found is not None
        taken = await store.claim(TASKS, claim)

        assert claiming.cancelled()
        assert (found.holder, len(taken)) in {(None, 1), ("me", 0)}

    async def test_a_listener_that_was_cut_off_looks_at_everything(
        self, proxy: CuttingProxy, url: str
    ) -> None:
        async with open_store(url) as one, open_store(url) as two:
            async with one.watch(NOTES, poll_s=20) as watch:
                await two.create(NOTES, "a", {})
                while await one.count(NOTES) < 1:
                    assert await watch.wait()
                proxy.refuse()
                proxy.heal()
                await two.create(NOTES, "b", {})
                while await one.count(NOTES) < 2:
                    assert await watch.wait()


class TestCrash:
    @pytest.mark.crash
    async def test_no_acknowledged_write_is_lost_when_the_server_is_killed(
        self, doomed_postgres: PostgresServer
    ) -> None:
        rounds = 3
        writing = asyncio.Event()
        stop = False

        async def count(store: Store, key: str) -> tuple[int, int]:
            """Increase a number again and again; how often it was acknowledged, and not."""
            acknowledged = unknown = 0
            revision, n = revisions[key], 0
            while not stop:
                try:
                    revision = await store.replace(NOTES, key, {"n": n + 1}, expect=revision)
                    n, acknowledged = n + 1, acknowledged + 1
                    writing.set()
                except (Unavailable, OutcomeUnknown) as error:
                    found = await _when_back(store, key)
                    assert n <= found.body["n"] <= n + 1
                    if isinstance(error, Unavailable) and not error.maybe_applied:
                        assert found.body["n"] == n
                    unknown += found.body["n"] - n
                    n, revision = found.body["n"], found.revision
            assert (await _when_back(store, key)).body["n"] == n
            return acknowledged, unknown

        async with open_store(doomed_postgres.url, connections=4) as store:
            revisions = {key: await store.create(NOTES, key, {"n": 0}) for key in "abcd"}
            tasks = [asyncio.create_task(count(store, key)) for key in revisions]
            for _ in range(rounds):
                writing.clear()
                await writing.wait()
                await asyncio.to_thread(doomed_postgres.kill)
                await asyncio.to_thread(doomed_postgres.start)
            writing.clear()
            await writing.wait()
            stop = True
            results = await asyncio.gather(*tasks)
            found = [await _when_back(store, key) for key in revisions]

        assert [one.body["n"] for one in found] == [sum(result) for result in results]
        assert sum(acknowledged for acknowledged, _ in results) > rounds


async def _when_back(store: Store, key: str) -> Document:
    while True:
        try:
            found = await store.get(NOTES, key)
        except Unavailable:
            await asyncio.sleep(0.02)
        else:
            assert found is not None
            return found
