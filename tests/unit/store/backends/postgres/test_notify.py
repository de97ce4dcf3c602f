"""Who hears of a change."""

import asyncio

from tidemill.store.backends.postgres import PostgresBackend


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
