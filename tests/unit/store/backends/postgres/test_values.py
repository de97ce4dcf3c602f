"""How values travel."""

import psycopg

from tidemill.store import Collection, Write, open_store
from tidemill.store.backends.postgres import PostgresBackend
from tidemill.store.backends.postgres.values import Integers, Reals, Texts

TASKS = Collection(
    "tasks",
    fields=(("queue", "text"), ("status", "integer"), ("weight", "real")),
    indexes=(("queue", "status"),),
)


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

    async def test_arrays_arrive_as_they_were_sent(self, rival: psycopg.AsyncConnection) -> None:
        texts = Texts(["", "a", None, "日本 🌊", 'quote " \\ {,}'])
        integers = Integers([0, None, -(2**63), 2**63 - 1])
        reals = Reals([0.5, None, -1e300, 2])
        sent = await rival.execute("SELECT %s, %s, %s, %s", (texts, integers, reals, Texts()))

        assert await sent.fetchone() == (list(texts), list(integers), list(reals), [])
