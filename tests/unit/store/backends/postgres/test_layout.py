"""Tables, columns and indexes."""

import psycopg

from tidemill.store import Body, Collection, Store, Write, eq, open_store
from tidemill.store.backends.postgres import layout

TASKS = Collection(
    "tasks",
    fields=(("queue", "text"), ("status", "integer"), ("weight", "real")),
    indexes=(("queue", "status"),),
)


class TestLayout:
    def test_long_index_names_stay_apart(self) -> None:
        name = "n" * 40
        fields = [letter * 40 for letter in "abc"]
        names = {layout.index_name(Collection(name), pair) for pair in [fields[:2], fields[1:], fields]}

        assert len(names) == 3
        assert all(len(one) <= 63 for one in names)

    async def test_what_is_there_is_not_locked(
        self, store: Store, postgres_url: str, rival: psycopg.AsyncConnection
    ) -> None:
        await store.create(TASKS, "a", {})
        await rival.execute("BEGIN")
        await rival.execute("LOCK TABLE tidemill_tasks IN ROW EXCLUSIVE MODE")
        async with open_store(postgres_url) as newcomer:
            assert await newcomer.get(TASKS, "a") is not None

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

    async def test_an_index_serves_the_order_in_full(
        self, store: Store, rival: psycopg.AsyncConnection
    ) -> None:
        await store.write([Write(TASKS, f"{at:05}", {"queue": "q", "status": 0}, None) for at in range(3000)])
        orders = [
            "WHERE f_queue = 'q' ORDER BY f_status ASC NULLS FIRST, key ASC LIMIT 1",
            "WHERE TRUE ORDER BY key ASC LIMIT 1",
        ]
        await rival.execute("ANALYZE tidemill_tasks")
        for order in orders:
            plan = await rival.execute(f"EXPLAIN SELECT key FROM tidemill_tasks {order}")

            assert "Sort" not in str(await plan.fetchall())
