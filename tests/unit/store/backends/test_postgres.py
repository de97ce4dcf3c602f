"""What is PostgreSQL's alone: locks between statements, lost connections, layout, notifications."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import psycopg
import pytest
import pytest_asyncio
import uvloop

from proxy import CuttingProxy
from servers import Postgres, PostgresServer
from tidemill.store import (
    BadRequest,
    Body,
    Claim,
    Collection,
    Document,
    Done,
    Fence,
    Lost,
    OutcomeUnknown,
    ReadOnly,
    Store,
    Term,
    Unavailable,
    Unknown,
    Write,
    eq,
    open_store,
)
from tidemill.store.backends.postgres import PostgresBackend, batch, layout, statements
from tidemill.store.backends.postgres.values import ADAPTERS, Integers, Reals, Texts

NOTES = Collection("notes")
LEASES = Collection("leases")
TASKS = Collection(
    "tasks",
    fields=(("queue", "text"), ("status", "integer"), ("weight", "real")),
    indexes=(("queue", "status"),),
)
LONG_MS = 60_000


@pytest_asyncio.fixture
async def store(postgres_url: str) -> AsyncIterator[Store]:
    async with open_store(postgres_url, connections=4) as store:
        yield store


@asynccontextmanager
async def plain(url: str) -> AsyncIterator[psycopg.AsyncConnection]:
    """A connection of the test's own; commits by itself unless it says BEGIN."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True, context=ADAPTERS) as connection:
        yield connection


async def wait_blocked(url: str, n: int = 1) -> None:
    """Return once that many statements wait for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = %s"
    async with plain(url) as connection:
        while (await (await connection.execute(waiting, [urlsplit(url).path[1:]])).fetchone()) != (n,):
            pass


async def wait_past(store: Store, instant: int) -> None:
    while await store.now() <= instant:
        pass


class TestFence:
    """A takeover and a fenced write of the old term never interleave."""

    KIND = batch.kind_of(Write(NOTES, "a", {}, 1, Fence(LEASES, "leader", 1)))

    async def test_a_takeover_waits_for_the_fenced_write_before_it(
        self, store: Store, postgres_url: str
    ) -> None:
        revision = await store.create(NOTES, "a", {"n": 1})
        lease = (await store.hold(LEASES, ["leader"], "one", 300))["leader"]
        async with plain(postgres_url) as connection:
            await connection.execute("BEGIN")
            params = ("leader", lease.term, 7, '{"n":2}', "a", revision)
            written = await connection.execute(statements.write_one(self.KIND), params)
            assert await written.fetchone() is not None
            await wait_past(store, lease.expire)
            takeover = asyncio.create_task(store.hold(LEASES, ["leader"], "two", LONG_MS))
            await wait_blocked(postgres_url)
            assert not takeover.done()
            await connection.execute("COMMIT")
        taken = (await takeover)["leader"]
        found = await store.get(NOTES, "a")
        assert found is not None
        late = Write(NOTES, "a", {"n": 3}, found.revision, Fence(LEASES, "leader", lease.term))

        assert taken.held_by("two")
        assert found.body == {"n": 2}
        assert found.revision < taken.term
        assert await store.write([late]) == [Lost()]

    async def test_a_fenced_write_behind_an_unfinished_takeover_is_refused(
        self, store: Store, postgres_url: str
    ) -> None:
        revision = await store.create(NOTES, "a", {"n": 1})
        lease = (await store.hold(LEASES, ["leader"], "one", LONG_MS))["leader"]
        fence = Fence(LEASES, "leader", lease.term)
        async with plain(postgres_url) as connection:
            await connection.execute("BEGIN")
            await connection.execute("UPDATE tidemill_leases SET expire = 0")
            params = {"keys": Texts(["leader"]), "holder": "two", "ttl": LONG_MS}
            await connection.execute(statements.hold(LEASES), params)
            writing = asyncio.create_task(store.write([Write(NOTES, "a", {"n": 2}, revision, fence)]))
            await wait_blocked(postgres_url)
            await connection.execute("COMMIT")
        outcomes = await writing
        found = await store.get(NOTES, "a")

        assert outcomes == [Lost()]
        assert found is not None
        assert found.body == {"n": 1}

    async def test_no_fenced_write_is_accepted_after_a_takeover(self, postgres_url: str) -> None:
        """Revisions and terms are drawn from one sequence, so they show what came after what."""
        accepted: list[tuple[int, int]] = []
        terms: set[int] = set()

        async def contend(name: str) -> None:
            async with open_store(postgres_url, connections=2) as store:
                for _ in range(60):
                    lease = (await store.hold(LEASES, ["leader"], name, 15))["leader"]
                    terms.add(lease.term)
                    fence = Fence(LEASES, "leader", lease.term)
                    for _ in range(3):
                        found = await store.get(NOTES, "a")
                        assert found is not None
                        [outcome] = await store.write([Write(NOTES, "a", {}, found.revision, fence)])
                        if isinstance(outcome, Done):
                            accepted.append((lease.term, outcome.revision))

        async with open_store(postgres_url) as store:
            await store.create(NOTES, "a", {})
        await asyncio.gather(*(contend(f"n{at}") for at in range(4)))
        late = [(term, revision) for term, revision in accepted for other in terms if term < other < revision]

        assert len(terms) > 3
        assert len({term for term, _ in accepted}) > 3
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


class TestHold:
    async def test_what_others_hold_is_neither_locked_nor_written(
        self, store: Store, postgres_url: str
    ) -> None:
        await store.hold(LEASES, ["leader"], "one", LONG_MS)
        async with plain(postgres_url) as connection:
            versions = "SELECT xmin::text, xmax::text, ctid::text FROM tidemill_leases"
            before = await (await connection.execute(versions)).fetchall()
            await connection.execute("BEGIN")
            await connection.execute("SELECT 1 FROM tidemill_leases FOR UPDATE")
            seen = (await store.hold(LEASES, ["leader"], "two", LONG_MS))["leader"]
            await connection.execute("ROLLBACK")
        async with open_store(postgres_url) as other:
            await other.hold(LEASES, ["leader"], "two", LONG_MS)
            await other.renew(LEASES, {"leader": 1}, LONG_MS)
        async with plain(postgres_url) as connection:
            after = await (await connection.execute(versions)).fetchall()

        assert seen.holder == "one"
        assert [(xmin, ctid) for xmin, _, ctid in before] == [(xmin, ctid) for xmin, _, ctid in after]

    async def test_a_holder_that_waited_in_vain_learns_who_came_first(
        self, store: Store, postgres_url: str
    ) -> None:
        first = (await store.hold(LEASES, ["leader"], "one", LONG_MS))["leader"]
        await store.release(LEASES, {"leader": first.term})
        async with plain(postgres_url) as connection:
            await connection.execute("BEGIN")
            params = {"keys": Texts(["leader"]), "holder": "two", "ttl": LONG_MS}
            await connection.execute(statements.hold(LEASES), params)
            holding = asyncio.create_task(store.hold(LEASES, ["leader"], "three", LONG_MS))
            await wait_blocked(postgres_url)
            await connection.execute("COMMIT")
        seen = (await holding)["leader"]

        assert seen.holder == "two"
        assert seen.term > first.term
        assert seen.expire > seen.now

    async def test_a_holder_whose_insert_lost_learns_who_came_first(
        self, store: Store, postgres_url: str
    ) -> None:
        await store.get(LEASES, "leader")
        async with plain(postgres_url) as connection:
            await connection.execute("BEGIN")
            params = {"keys": Texts(["leader"]), "holder": "two", "ttl": LONG_MS}
            await connection.execute(statements.hold(LEASES), params)
            holding = asyncio.create_task(store.hold(LEASES, ["leader", "other"], "three", LONG_MS))
            await wait_blocked(postgres_url)
            await connection.execute("COMMIT")
        seen = await holding

        assert {key: lease.holder for key, lease in seen.items()} == {"leader": "two", "other": "three"}

    async def test_a_renewal_that_waited_in_vain_sees_the_new_term(
        self, store: Store, postgres_url: str
    ) -> None:
        first = (await store.hold(LEASES, ["leader"], "one", LONG_MS))["leader"]
        async with plain(postgres_url) as connection:
            await connection.execute("BEGIN")
            await connection.execute("UPDATE tidemill_leases SET term = term + 1, holder = 'two'")
            renewing = asyncio.create_task(store.renew(LEASES, {"leader": first.term}, LONG_MS))
            await wait_blocked(postgres_url)
            await connection.execute("COMMIT")
        seen = (await renewing)["leader"]

        assert (seen.holder, seen.term) == ("two", first.term + 1)


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

    async def test_a_deadlock_is_undone_and_done_again(self, store: Store, postgres_url: str) -> None:
        outcomes = await store.write([Write(NOTES, key, {"n": 1}, None) for key in "ab"])
        revisions = [outcome.revision for outcome in outcomes if isinstance(outcome, Done)]
        touch = "UPDATE tidemill_notes SET nonce = nonce WHERE key = %s"
        async with plain(postgres_url) as connection:
            # The other side finds the deadlock first, and so is the one that gives way.
            await connection.execute("SET deadlock_timeout = '60s'")
            await connection.execute("BEGIN")
            await connection.execute(touch, ["b"])
            writing = asyncio.create_task(
                store.write(
                    [
                        Write(NOTES, key, {"n": 2}, revision)
                        for key, revision in zip("ab", revisions, strict=True)
                    ]
                )
            )
            await wait_blocked(postgres_url)
            await connection.execute(touch, ["a"])
            await connection.execute("COMMIT")

        assert all(isinstance(outcome, Done) for outcome in await writing)


class TestValues:
    async def test_one_statement_is_prepared_whatever_the_values(self, postgres_url: str) -> None:
        async with open_store(postgres_url, connections=1) as store:
            for at, value in enumerate([None, 1, 40_000, 3_000_000_000, -(2**63), None, 2]):
                await store.create(TASKS, f"k{at}", {"status": value, "weight": value, "queue": "q"})
                await store.write([Write(TASKS, f"{n}-{at}", {"status": value}, None) for n in range(3)])
            backend = store._backend
            assert isinstance(backend, PostgresBackend)
            names = await backend._pool.rows("SELECT statement FROM pg_prepared_statements")

        assert len([name for (name,) in names if "INSERT INTO tidemill_tasks" in name]) == 2

    async def test_arrays_arrive_as_they_were_sent(self, postgres_url: str) -> None:
        texts = Texts(["", "a", None, "日本 🌊", 'quote " \\ {,}'])
        integers = Integers([0, None, -(2**63), 2**63 - 1])
        reals = Reals([0.5, None, -1e300, 2])
        async with plain(postgres_url) as connection:
            sent = await connection.execute("SELECT %s, %s, %s, %s", (texts, integers, reals, Texts()))

            assert await sent.fetchone() == (list(texts), list(integers), list(reals), [])


class TestLayout:
    def test_long_index_names_stay_apart(self) -> None:
        name = "n" * 40
        fields = [letter * 40 for letter in "abc"]
        names = {layout.index_name(Collection(name), pair) for pair in [fields[:2], fields[1:], fields]}

        assert len(names) == 3
        assert all(len(one) <= 63 for one in names)

    async def test_what_is_there_is_not_locked(self, store: Store, postgres_url: str) -> None:
        await store.create(TASKS, "a", {})
        async with plain(postgres_url) as connection, open_store(postgres_url) as other:
            await connection.execute("BEGIN")
            await connection.execute("LOCK TABLE tidemill_tasks IN ROW EXCLUSIVE MODE")

            assert await other.get(TASKS, "a") is not None

    async def test_a_field_that_becomes_declared_is_filled_where_its_type_fits(self, store: Store) -> None:
        older = Collection("things")
        newer = Collection("things", fields=(("size", "integer"), ("name", "text"), ("ratio", "real")))
        bodies: dict[str, Body] = {
            "plain": {"size": 3, "name": "x", "ratio": 0.5},
            "nul": {"size": 4, "other": "a\0b\\u0000", "name": "y\\"},
            "wrong": {"size": "large", "name": 7, "ratio": None},
            "huge": {"size": 10**30},
            "inner": {"inner": {"size": 1}},
        }
        await store.write([Write(older, key, body, None) for key, body in bodies.items()])
        found = (await store.find(newer, sort=("size",))).documents

        assert [one.key for one in found] == ["huge", "inner", "wrong", "plain", "nul"]
        assert found[-1].body == bodies["nul"]
        assert (await store.find(newer, eq("name", "y\\"))).documents == [found[-1]]

    async def test_an_index_serves_the_order_in_full(self, store: Store, postgres_url: str) -> None:
        await store.write([Write(TASKS, f"{at:05}", {"queue": "q", "status": 0}, None) for at in range(3000)])
        orders = [
            "WHERE f_queue = 'q' ORDER BY f_status ASC NULLS FIRST, key ASC LIMIT 1",
            "WHERE TRUE ORDER BY key ASC LIMIT 1",
        ]
        async with plain(postgres_url) as connection:
            await connection.execute("ANALYZE tidemill_tasks")
            for order in orders:
                plan = await connection.execute(f"EXPLAIN SELECT key FROM tidemill_tasks {order}")

                assert "Sort" not in str(await plan.fetchall())


class TestSettings:
    @pytest.mark.parametrize(("given", "used"), [("off", "on"), ("local", "on"), ("remote_apply",) * 2])
    async def test_an_acknowledged_write_is_on_disk(self, postgres_url: str, given: str, used: str) -> None:
        async with plain(postgres_url) as connection:
            database = urlsplit(postgres_url).path[1:]
            await connection.execute(f"ALTER DATABASE {database} SET synchronous_commit = {given}")
        async with open_store(postgres_url) as store:
            backend = store._backend
            assert isinstance(backend, PostgresBackend)

            assert await backend._pool.rows("SHOW synchronous_commit") == [(used,)]

    async def test_the_error_of_a_dead_server_names_it_without_the_password(self) -> None:
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1 cannot be reached") as refused:
            await open_store("postgresql://me:secret@127.0.0.1:1/db").open()

        assert "secret" not in str(refused.value)
        assert not refused.value.maybe_applied

    @pytest.mark.parametrize("url", ["postgresql://me:sec@ret@host/db", "postgresql://me:sec/ret@host/db"])
    def test_an_address_with_a_raw_password_is_refused_without_repeating_it(self, url: str) -> None:
        with pytest.raises(BadRequest, match="%40") as refused:
            open_store(url)

        assert "ret" not in str(refused.value)

    async def test_a_database_of_another_encoding_is_refused(self, postgres_server: Postgres) -> None:
        async with plain(postgres_server.url) as connection:
            await connection.execute(
                "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
            )
        try:
            with pytest.raises(BadRequest, match="LATIN1"):
                await open_store(urlsplit(postgres_server.url)._replace(path="/latin").geturl()).open()
        finally:
            postgres_server.drop_database("latin")

    async def test_a_role_without_rights_is_told_which(self, store: Store, postgres_url: str) -> None:
        role = "stranger"
        async with plain(postgres_url) as connection:
            await connection.execute(f"CREATE ROLE {role} LOGIN")
        try:
            parts = urlsplit(postgres_url)
            url = parts._replace(netloc=f"{role}@{parts.hostname}:{parts.port}").geturl()
            with pytest.raises(BadRequest, match="grant the role"):
                await open_store(url).open()
        finally:
            async with plain(postgres_url) as connection:
                await connection.execute(f"DROP ROLE {role}")

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
        async with open_store(url, timeout_s=0.3) as store:
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

        assert took_s < 2
        assert found is not None

    async def test_a_cancelled_call_leaves_its_connection_behind(
        self, store: Store, postgres_url: str
    ) -> None:
        revision = await store.create(NOTES, "a", {"n": 1})
        async with plain(postgres_url) as connection:
            await connection.execute("BEGIN")
            await connection.execute("SELECT 1 FROM tidemill_notes FOR UPDATE")
            stuck = [
                asyncio.create_task(store.replace(NOTES, "a", {"n": 2}, expect=revision)) for _ in range(4)
            ]
            await wait_blocked(postgres_url, 4)
            for task in stuck:
                task.cancel()
            began = time.monotonic()
            await asyncio.gather(*stuck, return_exceptions=True)
            others = await asyncio.gather(*(store.get(NOTES, "a") for _ in range(8)))
            took_s = time.monotonic() - began
            await connection.execute("ROLLBACK")

        assert all(task.cancelled() for task in stuck)
        assert all(other is not None and other.body == {"n": 1} for other in others)
        assert took_s < 2

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


class TestNotify:
    async def test_ones_own_changes_come_back_to_others_only(self, postgres_url: str) -> None:
        heard: dict[str, list[str | None]] = {"one": [], "two": []}
        told = asyncio.Event()

        def hear(name: str | None) -> None:
            heard["two"].append(name)
            if name == "last":
                told.set()

        one, two = PostgresBackend(postgres_url, "0.1.0", 2), PostgresBackend(postgres_url, "0.1.0", 2)
        await one.open()
        await two.open()
        one.subscribe(heard["one"].append)
        two.subscribe(hear)
        while None not in heard["one"] or None not in heard["two"]:
            await one.now()
        for _ in range(50):
            one.announce(["many"])
        one.announce(["last"])
        await one.close()
        await told.wait()
        await two.close()

        assert heard["one"] == [None]
        assert sorted(heard["two"][1:], key=str) == ["last", "many"]


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
        assert all(acknowledged > 0 for acknowledged, _ in results)


async def _when_back(store: Store, key: str) -> Document:
    while True:
        try:
            found = await store.get(NOTES, key)
        except Unavailable:
            await asyncio.sleep(0.02)
        else:
            assert found is not None
            return found
