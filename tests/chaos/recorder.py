"""Triggers that write down every accepted write, in the transaction that makes it.

They lie in the database itself and know nothing of the code that is tested. What is rolled back leaves no
record; what is committed leaves one, whether or not its writer ever heard of it. For one document the
records are in the order of its changes, and a fenced write stands where it stood towards its lease: SQLite
has one writer at a time, and PostgreSQL keeps the lease's row locked until the fenced write is committed.
"""

import asyncio
import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from msgspec import Struct

from chaos.words import BOOKS, EFFECTS, ENTRIES
from tidemill.cluster import LEASES, PARTITIONS, SEMAPHORES
from tidemill.cluster.lock import LOCKS
from tidemill.store import Collection, Store
from tidemill.tasks.task import TASKS

RECORDED = (LEASES, PARTITIONS, LOCKS, SEMAPHORES, ENTRIES, EFFECTS, BOOKS)


class Facts(Struct, frozen=True):
    """A document beside its body."""

    revision: int
    term: int
    holder: str | None
    expire: int
    state: str | int | None = None
    """Of partitions and tasks, what state they are in."""


class Change(Struct, frozen=True):
    """One accepted write: a document before and after it; `at` is the database's own clock, or None.

    SQLite has no clock but its writer's, which may be off on purpose.
    """

    number: int
    at: int | None
    collection: str
    key: str
    before: Facts | None
    after: Facts | None
    body: dict[str, Any]


async def install(store: Store, url: str, recorded: Sequence[Collection] = RECORDED) -> None:
    """Begin to record. The tables must be there for that, so each is used once."""
    for collection in recorded:
        await store.find(collection, limit=1)
        await store.create(collection, "chaos", {})
        await store.delete(collection, "chaos", expect=(await _revision(store, collection)))
    await asyncio.to_thread(_execute, url, [_table(url), *_triggers(url, recorded)])


async def _revision(store: Store, collection: Collection) -> int:
    found = await store.get(collection, "chaos")
    assert found is not None
    return found.revision


def read(url: str) -> list[Change]:
    """All that was accepted since `install`, in order."""
    query = "SELECT number, at, collection, key, before, after, body FROM chaos_record ORDER BY number"
    if url.startswith("sqlite:"):
        with sqlite3.connect(_path(url)) as connection:
            return [_change(row) for row in connection.execute(query)]
    with psycopg.connect(url) as session:
        return [_change(row) for row in session.execute(query)]


def _change(row: Sequence[Any]) -> Change:
    number, at, collection, key, before, after, body = row
    return Change(number, at, collection, key, _facts(before), _facts(after), json.loads(body or "{}"))


def _facts(text: str | None) -> Facts | None:
    return Facts(*json.loads(text)) if text is not None else None


def _table(url: str) -> str:
    number = "INTEGER PRIMARY KEY AUTOINCREMENT" if url.startswith("sqlite:") else "BIGSERIAL PRIMARY KEY"
    return (
        f"CREATE TABLE chaos_record (number {number}, at BIGINT, collection TEXT NOT NULL, "
        "key TEXT NOT NULL, before TEXT, after TEXT, body TEXT)"
    )


def _triggers(url: str, recorded: Sequence[Collection]) -> list[str]:
    made = _sqlite_trigger if url.startswith("sqlite:") else _postgres_trigger
    return [made(found, act) for found in recorded for act in ("INSERT", "UPDATE", "DELETE")]


def _values(collection: Collection, act: str, array: str) -> str:
    """What both databases insert, but for the clock."""
    old, new = act != "INSERT", act != "DELETE"
    names = {PARTITIONS: ", {}.f_state", TASKS: ", {}.f_status"}
    state = names.get(collection, "")
    facts = f"{array}({{0}}.revision, {{0}}.term, {{0}}.holder, {{0}}.expire{state.format('{0}')})"
    before = f"CAST({facts.format('OLD')} AS TEXT)" if old else "NULL"
    after = f"CAST({facts.format('NEW')} AS TEXT)" if new else "NULL"
    last = "NEW" if new else "OLD"
    return f"'{collection.name}', {last}.key, {before}, {after}, {last}.body"


def _sqlite_trigger(collection: Collection, act: str) -> str:
    return (
        f"CREATE TRIGGER chaos_{act}_{collection.name} AFTER {act} ON tidemill_{collection.name} BEGIN "
        "INSERT INTO chaos_record (at, collection, key, before, after, body) "
        f"VALUES (NULL, {_values(collection, act, 'json_array')}); END"
    )


def _postgres_trigger(collection: Collection, act: str) -> str:
    name = f"chaos_{act}_{collection.name}".lower()
    values = _values(collection, act, "json_build_array")
    return (
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO chaos_record (at, collection, key, before, after, body) "
        f"VALUES (floor(extract(epoch FROM clock_timestamp()) * 1000), {values}); "
        f"RETURN NULL; END $$; "
        f"CREATE TRIGGER {name} AFTER {act} ON tidemill_{collection.name} "
        f"FOR EACH ROW EXECUTE FUNCTION {name}()"
    )


def _execute(url: str, statements: Iterable[str]) -> None:
    if url.startswith("sqlite:"):
        with sqlite3.connect(_path(url), timeout=30) as connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()
        return
    with psycopg.connect(url) as session:
        for statement in statements:
            session.execute(statement)


def _path(url: str) -> str:
    return url.removeprefix("sqlite:///")
