"""Cases of creating, replacing and deleting documents, and of writes whose answer is lost."""

import asyncio
import math
import random
from typing import Any

import pytest

from tidemill.store import (
    BadRequest,
    Collection,
    Conflict,
    Done,
    Lost,
    OutcomeUnknown,
    Store,
    Unavailable,
    Unknown,
    Write,
)
from tidemill.store.testing.harness import Harness

NOTES = Collection("notes", topics=("news", "gossip"))
TASKS = Collection(
    "tasks",
    fields=(("queue", "text"), ("status", "integer"), ("weight", "real")),
    indexes=(("queue", "status"), ("status",)),
)

ODD_KEYS = [
    "a",
    " ",
    "a b",
    "a/b/../c",
    "'; DROP TABLE notes; --",
    '"quoted"',
    "%s %(x)s ? :name $1",
    "back\\slash",
    "new\nline\ttab",
    "Ünïcödé",
    "日本語",
    "🌊🏭",
    "e\u0301",
    "\u00e9",
    "\u202eright",
    "x" * 512,
]

ODD_BODIES: list[dict[str, Any]] = [
    {},
    {"": ""},
    {"a": None, "b": [], "c": {}, "d": [None, [None]]},
    {"deep": {"er": {"est": [1, {"x": "y"}]}}},
    {"int": 2**63 - 1, "negative": -(2**63), "beyond": 2**70},
    {"float": 1.5, "tiny": 5e-324, "huge": 1.7976931348623157e308, "whole": 1.0, "exp": 1e22},
    {"true": True, "false": False},
    {"text": "\x00 \x1f \\ \" ' / \u2028 🌊 日本 %s ?"},
    {"key": "k", "revision": "r", "term": "t", "body": "b", "holder": "h"},
    {"🌊": 1, "a.b": 2, "$c": 3, "d'e": 4},
]


class WriteCases:
    """Every change is compare-and-set, and its outcome is never a guess."""

    async def test_a_document_comes_back_as_it_was_written(self, store: Store) -> None:
        revision = await store.create(NOTES, "a", {"text": "hello", "n": 1})
        found = await store.get(NOTES, "a")

        assert found is not None
        assert (found.body, found.revision) == ({"text": "hello", "n": 1}, revision)
        assert (found.term, found.holder, found.expire) == (0, None, 0)

    async def test_a_missing_document_is_none(self, store: Store) -> None:
        assert await store.get(NOTES, "nothing") is None
        assert await store.get_many(NOTES, []) == {}

    async def test_get_many_returns_what_exists(self, store: Store) -> None:
        await store.write([Write(NOTES, key, {"k": key}, None) for key in "abc"])
        found = await store.get_many(NOTES, ["c", "a", "z", "a"])

        assert {key: document.body for key, document in found.items()} == {"a": {"k": "a"}, "c": {"k": "c"}}

    @pytest.mark.parametrize("key", ODD_KEYS)
    async def test_odd_keys_are_just_keys(self, store: Store, key: str) -> None:
        revision = await store.create(NOTES, key, {"k": key})
        found = await store.get(NOTES, key)

        assert found is not None
        assert found.body == {"k": key}
        assert len((await store.find(NOTES)).documents) == 1
        await store.delete(NOTES, key, expect=revision)
        assert await store.get(NOTES, key) is None

    async def test_keys_differ_by_every_byte(self, store: Store) -> None:
        outcomes = await store.write(
            [Write(NOTES, key, {}, None) for key in ("e\u0301", "\u00e9", "é ", "É")]
        )

        assert all(isinstance(outcome, Done) for outcome in outcomes)

    @pytest.mark.parametrize("key", ["", "x" * 513, "é" * 257, "nul\0", "\ud800"])
    async def test_a_key_that_not_every_database_takes_is_refused(self, store: Store, key: str) -> None:
        with pytest.raises(BadRequest):
            await store.create(NOTES, key, {})

    @pytest.mark.parametrize("body", ODD_BODIES)
    async def test_odd_bodies_come_back_unchanged(self, store: Store, body: dict[str, Any]) -> None:
        await store.create(NOTES, "a", body)
        found = await store.get(NOTES, "a")

        assert found is not None
        assert found.body == body
        assert {name: type(value) for name, value in found.body.items()} == {
            name: type(value) for name, value in body.items()
        }

    @pytest.mark.parametrize(
        "body",
        [{"x": math.nan}, {"x": [math.inf]}, {"x": {"y": -math.inf}}, {"x": object()}, {"x": "\ud800"}],
    )
    async def test_a_body_that_would_not_come_back_is_refused(
        self, store: Store, body: dict[str, Any]
    ) -> None:
        with pytest.raises(BadRequest):
            await store.create(NOTES, "a", body)
        assert await store.get(NOTES, "a") is None

    async def test_a_mebibyte_fits(self, store: Store) -> None:
        body = {"text": "ü" * (512 * 1024), "n": 1}
        revision = await store.create(NOTES, "big", body)
        await store.replace(NOTES, "big", {**body, "n": 2}, expect=revision)
        found = await store.get(NOTES, "big")

        assert found is not None
        assert found.body == {**body, "n": 2}

    async def test_more_than_the_limit_is_refused(self, store: Store) -> None:
        with pytest.raises(BadRequest, match="blob"):
            await store.create(NOTES, "big", {"text": "x" * (4 * 1024 * 1024)})

    async def test_declared_fields_are_part_of_the_body(self, store: Store) -> None:
        await store.create(TASKS, "t", {"queue": "q", "status": -2, "weight": 1.5, "params": {"x": 1}})
        found = await store.get(TASKS, "t")

        assert found is not None
        assert found.body == {"queue": "q", "status": -2, "weight": 1.5, "params": {"x": 1}}

    async def test_none_in_a_declared_field_reads_back_as_absent(self, store: Store) -> None:
        await store.create(TASKS, "t", {"queue": None, "status": 0, "other": None})
        found = await store.get(TASKS, "t")

        assert found is not None
        assert found.body == {"status": 0, "other": None}

    @pytest.mark.parametrize(
        "body",
        [
            {"status": "0"},
            {"status": 1.5},
            {"status": True},
            {"queue": 7},
            {"weight": "x"},
            {"status": 2**63},
        ],
    )
    async def test_a_declared_field_keeps_its_type(self, store: Store, body: dict[str, Any]) -> None:
        with pytest.raises(BadRequest):
            await store.create(TASKS, "t", body)

    async def test_creating_twice_is_a_conflict(self, store: Store) -> None:
        await store.create(NOTES, "a", {"n": 1})
        with pytest.raises(Conflict, match="exists already"):
            await store.create(NOTES, "a", {"n": 2})
        found = await store.get(NOTES, "a")

        assert found is not None
        assert found.body == {"n": 1}

    async def test_replacing_at_an_old_revision_is_a_conflict(self, store: Store) -> None:
        first = await store.create(NOTES, "a", {"n": 1})
        second = await store.replace(NOTES, "a", {"n": 2}, expect=first)
        with pytest.raises(Conflict, match="revision"):
            await store.replace(NOTES, "a", {"n": 3}, expect=first)
        with pytest.raises(Conflict):
            await store.delete(NOTES, "a", expect=first)
        found = await store.get(NOTES, "a")

        assert second > first
        assert found is not None
        assert found.body == {"n": 2}

    async def test_replacing_or_deleting_nothing_is_a_conflict(self, store: Store) -> None:
        with pytest.raises(Conflict, match="does not exist"):
            await store.replace(NOTES, "a", {}, expect=1)
        with pytest.raises(Conflict, match="does not exist"):
            await store.delete(NOTES, "a", expect=1)

    async def test_a_replace_leaves_nothing_of_the_old_body(self, store: Store) -> None:
        revision = await store.create(TASKS, "t", {"queue": "q", "status": 1, "old": True})
        await store.replace(TASKS, "t", {"status": 2, "new": True}, expect=revision)
        found = await store.get(TASKS, "t")

        assert found is not None
        assert found.body == {"status": 2, "new": True}

    async def test_no_revision_is_ever_used_twice(self, store: Store) -> None:
        first = await store.create(NOTES, "a", {})
        await store.delete(NOTES, "a", expect=first)
        second = await store.create(NOTES, "a", {"second": "life"})
        with pytest.raises(Conflict):
            await store.replace(NOTES, "a", {}, expect=first)

        assert second > first

    async def test_numbers_grow_over_all_clients(self, harness: Harness) -> None:
        source, stores = random.Random(7), [await harness.connect() for _ in range(3)]
        numbers: list[int] = []
        for at in range(80):
            store = source.choice(stores)
            if source.random() < 0.3:
                lease = (await store.hold(NOTES, [f"lease-{at}"], "me", 60_000))[f"lease-{at}"]
                numbers.append(lease.term)
            else:
                numbers.append(await store.create(NOTES, f"note-{at}", {}))

        assert numbers == sorted(set(numbers))

    async def test_of_racing_creators_one_wins(self, harness: Harness) -> None:
        stores = [await harness.connect() for _ in range(8)]
        outcomes = await asyncio.gather(
            *(store.write([Write(NOTES, "a", {"by": at}, None)]) for at, store in enumerate(stores))
        )
        won = [at for at, [outcome] in enumerate(outcomes) if isinstance(outcome, Done)]
        found = await stores[0].get(NOTES, "a")

        assert found is not None
        assert won == [found.body["by"]]

    async def test_racing_writers_lose_no_update(self, harness: Harness) -> None:
        stores = [await harness.connect() for _ in range(4)]
        await stores[0].create(NOTES, "counter", {"n": 0})

        async def count(store: Store) -> None:
            done = 0
            while done < 25:
                found = await store.get(NOTES, "counter")
                assert found is not None
                await asyncio.sleep(0)
                try:
                    body = {"n": found.body["n"] + 1}
                    await store.replace(NOTES, "counter", body, expect=found.revision)
                    done += 1
                except Conflict:
                    continue

        await asyncio.gather(*map(count, stores))
        found = await stores[0].get(NOTES, "counter")

        assert found is not None
        assert found.body == {"n": 100}
        assert sum(store.statistics().conflicts for store in stores) > 0

    async def test_writes_of_a_batch_stand_on_their_own(self, store: Store) -> None:
        first = await store.create(NOTES, "a", {"n": 1})
        outcomes = await store.write(
            [
                Write(NOTES, "new", {"n": 1}, None),
                Write(NOTES, "a", {"n": 2}, first),
                Write(NOTES, "a", {"n": 3}, first),
                Write(TASKS, "t", {"status": 1}, None),
                Write(NOTES, "gone", None, 1),
                Write(NOTES, "new", {"n": 9}, None),
            ]
        )
        kinds = [type(outcome) for outcome in outcomes]
        found = await store.get_many(NOTES, ["a", "new"])

        assert kinds == [Done, Done, Lost, Done, Lost, Lost]
        assert {key: document.body["n"] for key, document in found.items()} == {"a": 2, "new": 1}

    async def test_a_batch_can_create_and_delete_many(self, store: Store) -> None:
        keys = [f"k{at:03}" for at in range(250)]
        made = await store.write([Write(TASKS, key, {"status": 1, "key_": key}, None) for key in keys])
        revisions = [outcome.revision for outcome in made if isinstance(outcome, Done)]
        gone = await store.write(
            [Write(TASKS, key, None, revision) for key, revision in zip(keys, revisions, strict=True)]
        )

        assert len(revisions) == 250
        assert all(isinstance(outcome, Done) for outcome in gone)
        assert await store.count(TASKS) == 0

    async def test_a_write_whose_answer_was_lost_is_found_done(self, harness: Harness) -> None:
        store, faults = await harness.connect_faulty()
        revision = await store.create(NOTES, "a", {"n": 1})
        faults.plan("answer lost")
        after = await store.replace(NOTES, "a", {"n": 2}, expect=revision)
        found = await store.get(NOTES, "a")

        assert found is not None
        assert (found.body, found.revision) == ({"n": 2}, after)
        assert store.statistics().settled == 1

    @pytest.mark.parametrize("fault", ["request lost", "late"])
    async def test_a_write_that_never_arrived_is_sent_again(self, harness: Harness, fault: Any) -> None:
        store, faults = await harness.connect_faulty()
        faults.plan(fault)
        first = await store.create(NOTES, "a", {"n": 1})
        faults.plan(fault)
        second = await store.replace(NOTES, "a", {"n": 2}, expect=first)
        found = await store.get(NOTES, "a")

        assert found is not None
        assert (found.body, found.revision) == ({"n": 2}, second)

    async def test_a_create_whose_answer_was_lost_is_done_once(self, harness: Harness) -> None:
        store, faults = await harness.connect_faulty()
        faults.plan("answer lost")
        revision = await store.create(NOTES, "a", {"n": 1})
        found = await store.get(NOTES, "a")

        assert found is not None
        assert found.revision == revision

    async def test_a_lost_answer_under_a_later_write_stays_unknown(self, harness: Harness) -> None:
        store, faults = await harness.connect_faulty()
        other = await harness.connect()
        revision = await store.create(NOTES, "a", {"n": 1})

        async def overwrite() -> None:
            found = await other.get(NOTES, "a")
            assert found is not None
            await other.replace(NOTES, "a", {"n": 99}, expect=found.revision)

        faults.before_reading_back = overwrite
        faults.plan("answer lost")
        [outcome] = await store.write([Write(NOTES, "a", {"n": 2}, revision)])

        assert isinstance(outcome, Unknown)
        assert store.statistics().unknown == 1

    async def test_a_delete_whose_answer_was_lost_is_not_guessed(self, harness: Harness) -> None:
        store, faults = await harness.connect_faulty()
        revision = await store.create(NOTES, "a", {})
        faults.plan("answer lost")
        with pytest.raises(OutcomeUnknown):
            await store.delete(NOTES, "a", expect=revision)

    async def test_a_call_that_hangs_ends_in_time(self, harness: Harness) -> None:
        store, faults = await harness.connect_faulty(timeout_s=2.0)
        await store.create(NOTES, "a", {"n": 1})
        faults.plan("hang")
        revision = await store.create(NOTES, "b", {"n": 1})

        assert revision > 0
        assert store.statistics().unavailable == 1

    async def test_a_closed_store_says_so(self, harness: Harness) -> None:
        store = await harness.connect()
        await store.create(NOTES, "a", {})
        await store.close()
        await store.close()
        with pytest.raises(Unavailable):
            await store.create(NOTES, "b", {})

    async def test_a_full_or_read_only_database_refuses_writes_and_recovers(self, harness: Harness) -> None:
        store = await harness.connect()
        revision = await store.create(NOTES, "a", {"n": 1})
        state = harness.read_only()
        if state is None:
            return
        async with state:
            with pytest.raises(Unavailable) as refused:
                await _fill(store)
            assert not refused.value.maybe_applied
            assert refused.value.code == "store.read_only"
            found = await store.get(NOTES, "a")
            assert found is not None
        assert await store.replace(NOTES, "a", {"n": 2}, expect=revision) > revision

    async def test_a_closed_connection_is_replaced(self, harness: Harness) -> None:
        store = await harness.connect()
        await store.create(NOTES, "counter", {"n": 0})
        for n in range(1, 6):
            if not await harness.cut():
                return
            found = await store.get(NOTES, "counter")
            assert found is not None
            assert found.body == {"n": n - 1}
            assert await harness.cut()
            await store.replace(NOTES, "counter", {"n": n}, expect=found.revision)


async def _fill(store: Store) -> None:
    for at in range(200):
        await store.create(NOTES, f"more-{at}", {"text": "x" * 100_000})
