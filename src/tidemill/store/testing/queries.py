"""Cases of finding documents, of watching, and of a store that outlives releases."""

import asyncio
import random
from typing import Any

import pytest

from tidemill.store import (
    BadRequest,
    Claim,
    Collection,
    Condition,
    Document,
    ReleaseTooOld,
    Store,
    Write,
    eq,
    ge,
    gt,
    le,
    lt,
    one_of,
    open_store,
)
from tidemill.store.testing.harness import Harness
from tidemill.store.testing.writes import NOTES, TASKS

WORDS = ["", "a", "A", "b", "ab", "é", "e\u0301", "z", "日本", "🌊", "Z", "_", "~"]


def random_tasks(source: random.Random, n: int) -> dict[str, dict[str, Any]]:
    bodies: dict[str, dict[str, Any]] = {}
    for at in range(n):
        body: dict[str, Any] = {"queue": source.choice(WORDS), "status": source.randint(-3, 3), "n": at}
        if source.random() < 0.5:
            body["weight"] = source.choice([0.5, -1.0, 2, 1e300])
        if source.random() < 0.2:
            del body["queue"]
        if source.random() < 0.2:
            del body["status"]
        bodies[source.choice(WORDS) + f"{at:03}"] = body
    return bodies


def random_where(source: random.Random) -> list[Condition]:
    choices = [
        eq("queue", source.choice([*WORDS, None])),
        one_of("queue", source.sample(WORDS, 3)),
        gt("queue", source.choice(WORDS)),
        le("queue", source.choice(WORDS)),
        eq("status", source.choice([None, -1, 0, 1])),
        lt("status", source.randint(-2, 2)),
        ge("status", source.randint(-2, 2)),
        one_of("status", [-1, 0, None]),
        gt("weight", 0.0),
        eq("weight", None),
        ge("key", source.choice(WORDS)),
        eq("holder", None),
        eq("expire", 0),
        one_of("status", []),
    ]
    return source.sample(choices, source.choice([0, 1, 1, 2]))


SORTS = [
    (),
    ("key",),
    ("-key",),
    ("queue",),
    ("-queue", "status"),
    ("status", "-weight"),
    ("-weight",),
    ("weight", "-queue", "status"),
]


class QueryCases:
    """The same question has the same answer on every backend."""

    async def test_find_without_conditions_returns_all_by_key(self, store: Store) -> None:
        await store.write([Write(NOTES, key, {}, None) for key in ["b", "a", "é", "B", "🌊", "_"]])
        page = await store.find(NOTES)

        assert [document.key for document in page.documents] == ["B", "_", "a", "b", "é", "🌊"]
        assert page.cursor is None

    @pytest.mark.parametrize("seed", range(4))
    async def test_answers_agree_with_the_memory_backend(self, store: Store, seed: int) -> None:
        source = random.Random(seed)
        async with open_store("memory:") as model:
            for one in (store, model):
                bodies = random_tasks(random.Random(seed), 60)
                await one.write([Write(TASKS, key, body, None) for key, body in bodies.items()])
            for _ in range(40):
                where, sort, limit = random_where(source), source.choice(SORTS), source.choice([3, 7, 100])
                found = await _all_pages(store, where, sort, limit)
                expected = await _all_pages(model, where, sort, limit)

                assert [(one.key, one.body) for one in found] == [(one.key, one.body) for one in expected]
                assert await store.count(TASKS, *where) == len(expected)

    async def test_a_cursor_neither_repeats_nor_skips_while_others_write(self, store: Store) -> None:
        await store.write([Write(TASKS, f"k{at:02}", {"status": at % 3}, None) for at in range(20)])
        page = await store.find(TASKS, sort=("status",), limit=7)
        seen = [document.key for document in page.documents]
        await store.write([Write(TASKS, f"a{at}", {"status": 0}, None) for at in range(5)])
        while page.cursor is not None:
            page = await store.find(TASKS, sort=("status",), limit=7, cursor=page.cursor)
            seen += [document.key for document in page.documents]

        assert sorted(key for key in seen if key.startswith("k")) == [f"k{at:02}" for at in range(20)]

    async def test_fields_limit_what_comes_back(self, store: Store) -> None:
        await store.create(TASKS, "a", {"queue": "q", "status": 1, "params": {"big": "x" * 1000}})
        [declared] = (await store.find(TASKS, fields=["status"])).documents
        [other] = (await store.find(TASKS, fields=["params", "queue"], sort=("status",))).documents

        assert declared.body == {"status": 1}
        assert other.body == {"params": {"big": "x" * 1000}, "queue": "q", "status": 1}

    async def test_what_cannot_be_searched_is_refused(self, store: Store) -> None:
        with pytest.raises(BadRequest, match="other"):
            await store.find(TASKS, eq("other", 1))
        with pytest.raises(BadRequest, match="other"):
            await store.find(TASKS, sort=("-other",))
        with pytest.raises(BadRequest, match="declared integer"):
            await store.find(TASKS, eq("status", "1"))
        with pytest.raises(BadRequest, match="limit"):
            await store.find(TASKS, limit=0)
        with pytest.raises(BadRequest, match="cursor"):
            await store.find(TASKS, cursor="nonsense")

    async def test_a_collection_with_a_bad_name_is_refused(self, store: Store) -> None:
        for name in ["", "Tasks", "a b", "1a", "x" * 41, "a;b"]:
            with pytest.raises(BadRequest):
                await store.get(Collection(name), "a")
        with pytest.raises(BadRequest, match="fact"):
            await store.get(Collection("x", fields=(("holder", "text"),)), "a")
        with pytest.raises(BadRequest, match="longer than"):
            await store.get(Collection("x" * 40, topics=("y" * 14,)), "a")

    async def test_a_count_stops_at_its_limit(self, store: Store) -> None:
        await store.write([Write(NOTES, f"{at}", {}, None) for at in range(9)])

        assert await store.count(NOTES) == 9
        assert await store.count(NOTES, limit=4) == 4


class WatchCases:
    """A change wakes those who watch, whoever made it."""

    async def test_a_change_by_another_client_wakes_the_watcher(self, harness: Harness) -> None:
        one, two = await harness.connect(), await harness.connect()
        await two.create(NOTES, "a", {})
        async with one.watch(NOTES, poll_s=20) as watch:
            # A database may need a moment before it listens; it must then wake for every change.
            await two.create(NOTES, "b", {})
            while await one.count(NOTES) < 2:
                assert await watch.wait()
            for n in range(3, 6):
                await two.create(NOTES, f"n{n}", {})
                while await one.count(NOTES) < n:
                    assert await watch.wait()

    async def test_whoever_begins_to_watch_something_else_is_woken_too(self, harness: Harness) -> None:
        one, two = await harness.connect(), await harness.connect()
        late = Collection("x" * 40, topics=("y" * 13,))
        async with one.watch(NOTES, poll_s=20) as watch:
            await two.create(NOTES, "a", {})
            assert await watch.wait()
            async with one.watch(late, "y" * 13, poll_s=20) as watch_late:
                await two.write([Write(late, "a", {}, None, about="y" * 13)])
                while await one.count(late) < 1:
                    assert await watch_late.wait()
                for n in (2, 3):
                    await two.write([Write(late, f"{n}", {}, None, about="y" * 13)])
                    while await one.count(late) < n:
                        assert await watch_late.wait()
            await two.create(NOTES, "b", {})
            while await one.count(NOTES) < 2:
                assert await watch.wait()

    async def test_ones_own_change_wakes_too(self, store: Store) -> None:
        async with store.watch(NOTES, poll_s=20) as watch:
            await store.create(NOTES, "a", {})

            assert await watch.wait()

    async def test_without_a_change_the_poll_ends_the_wait(self, store: Store) -> None:
        async with store.watch(NOTES, poll_s=0.02) as watch:
            while await watch.wait():
                pass

    async def test_a_change_wakes_those_who_watch_for_what_it_is_about_and_those_for_anything(
        self, harness: Harness
    ) -> None:
        one, two = await harness.connect(), await harness.connect()
        await two.create(NOTES, "a", {})
        async with (
            one.watch(NOTES, "news", poll_s=20) as news,
            one.watch(NOTES, "gossip", poll_s=0.2) as gossip,
            one.watch(NOTES, "gossip", "news", poll_s=20) as both,
            one.watch(NOTES, poll_s=20) as anything,
        ):
            await two.create(NOTES, "b", {})  # of no topic, so all are told
            assert await gossip.wait()
            assert await news.wait()
            while await gossip.wait():
                pass
            await two.write([Write(NOTES, "c", {}, None, about="news")])
            assert await news.wait()
            assert await both.wait()
            assert await anything.wait()
            assert not await gossip.wait()

    async def test_a_topic_that_the_collection_does_not_have_is_refused(self, store: Store) -> None:
        with pytest.raises(BadRequest, match="no topic"):
            await store.write([Write(NOTES, "a", {}, None, about="weather")])
        with pytest.raises(BadRequest, match="no topic"):
            async with store.watch(NOTES, "weather"):
                pass

    async def test_a_release_wakes_those_who_wait_for_the_lease(self, harness: Harness) -> None:
        one, two = await harness.connect(), await harness.connect()
        lease = (await one.hold(NOTES, ["lock"], "one", 60_000))["lock"]
        async with two.watch(NOTES, poll_s=20) as watch:
            releasing = asyncio.create_task(one.release(NOTES, {"lock": lease.term}))
            while not (await two.hold(NOTES, ["lock"], "two", 60_000))["lock"].held_by("two"):
                assert await watch.wait()
            await releasing


class ReleaseCases:
    """Releases mix as long as they only add, and a newer one can close the door to older ones."""

    async def test_a_store_closed_to_older_releases_refuses_them(self, harness: Harness) -> None:
        store = await harness.connect("0.3.0")
        await store.close_to_older("0.2.0")
        with pytest.raises(ReleaseTooOld, match=r"0\.2\.0.*0\.1\.9"):
            await harness.connect("0.1.9")
        newer = await harness.connect("0.2.0")

        assert await newer.oldest_writer() == "0.2.0"

    async def test_the_mark_never_goes_back(self, harness: Harness) -> None:
        store = await harness.connect("1.10.0")
        await store.close_to_older("1.9.0")
        await store.close_to_older("1.2.0")

        assert await store.oldest_writer() == "1.9.0"

    async def test_a_newer_release_adds_fields_and_indexes(self, harness: Harness) -> None:
        older = Collection("things", fields=(("kind", "text"),), indexes=(("kind",),))
        newer = Collection(
            "things",
            fields=(("kind", "text"), ("size", "integer"), ("ratio", "real"), ("colour", "text")),
            indexes=(("kind",), ("size", "kind")),
            sparse=(("colour", "kind"),),
        )
        old = await harness.connect()
        await old.create(older, "a", {"kind": "x", "size": 3, "ratio": 0.5, "other": [1]})
        await old.create(older, "b", {"kind": "x"})
        new = await harness.connect()
        [found] = (await new.find(newer, ge("size", 1), eq("ratio", 0.5), sort=("-size",))).documents
        await new.create(newer, "c", {"kind": "y", "size": 9, "colour": "red"})

        assert found.body == {"kind": "x", "size": 3, "ratio": 0.5, "other": [1]}
        assert [one.key for one in (await new.find(newer, sort=("size",))).documents] == ["b", "a", "c"]
        assert [one.key for one in (await new.find(newer, eq("colour", "red"))).documents] == ["c"]
        assert [one.key for one in (await new.find(newer, eq("colour", None))).documents] == ["a", "b"]

    async def test_a_field_that_became_declared_can_be_cleared(self, harness: Harness) -> None:
        older = Collection("things", fields=(("kind", "text"),))
        newer = Collection("things", fields=(("kind", "text"), ("size", "integer")))
        old, new = await harness.connect(), await harness.connect()
        await old.create(older, "a", {"kind": "x", "size": 3})
        claim = Claim((eq("size", 3),), "me", 60_000, set=(("size", None),))
        [taken] = await new.claim(newer, claim)
        found = await new.get(newer, "a")

        assert found is not None
        assert taken.body == found.body == {"kind": "x"}

    async def test_an_older_release_keeps_the_fields_it_does_not_know(self, harness: Harness) -> None:
        older = Collection("things", fields=(("kind", "text"),))
        newer = Collection("things", fields=(("kind", "text"), ("size", "integer")))
        old, new = await harness.connect(), await harness.connect()
        await old.create(older, "a", {"kind": "x"})
        first = await new.get(newer, "a")
        assert first is not None
        await new.replace(newer, "a", {"kind": "x", "size": 7}, expect=first.revision)
        seen = await old.get(older, "a")
        assert seen is not None
        await old.replace(older, "a", {**seen.body, "kind": "y"}, expect=seen.revision)
        found = await new.get(newer, "a")

        assert found is not None
        assert found.body["kind"] == "y"
        assert found.body.get("size", 7) == 7

    async def test_clients_may_come_and_go_at_once(self, harness: Harness) -> None:
        async def visit(visitor: int) -> None:
            for at in range(8):
                store = await harness.connect()
                await store.create(TASKS, f"{visitor}-{at}", {})
                await store.close()

        await asyncio.gather(*map(visit, range(5)))
        store = await harness.connect()

        assert await store.count(TASKS) == 40

    async def test_clients_may_meet_a_new_collection_at_once(self, harness: Harness) -> None:
        stores = [await harness.connect() for _ in range(6)]
        await asyncio.gather(*(store.create(TASKS, f"t{at}", {}) for at, store in enumerate(stores)))

        assert await stores[0].count(TASKS) == 6


async def _all_pages(
    store: Store, where: list[Condition], sort: tuple[str, ...], limit: int
) -> list[Document]:
    page = await store.find(TASKS, *where, sort=sort, limit=limit)
    found = list(page.documents)
    while page.cursor is not None:
        page = await store.find(TASKS, *where, sort=sort, limit=limit, cursor=page.cursor)
        found += page.documents
    return found
