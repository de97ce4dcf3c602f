"""The SQL of each verb.

Texts depend on the collection and the kind of act alone, never on values or on how many documents
there are, so that each is prepared once per connection.

Three traps shape them. A statement sees one snapshot, and a row that it waited for is looked at again
in its newest version, but only by the part that locks it. So `nextval` belongs in SET, where it is drawn
again if the row changed meanwhile, or behind a lock: then revisions and terms only grow. And what a
statement leaves alone is read from the snapshot and may be out of date: `hold` and `renew` mark rows
that look as if they should have been touched, to be asked for again.
"""

from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from tidemill.store.backends.sql import Render, column, field_columns, selected, table
from tidemill.store.document import FACTS, Collection, FieldType

TYPES: dict[FieldType, str] = {"text": "text", "integer": "bigint", "real": "double precision"}
NOW = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
DRAW = "nextval('tidemill_drawn')"

_CLOCK = f"clock AS MATERIALIZED (SELECT {NOW} AS now)"

Guard: TypeAlias = Literal["absent", "revision", "term"]


class PostgresRender(Render):
    """Facts but the holder are never missing; saying where NULLs go would only hide the primary key."""

    def __init__(self) -> None:
        super().__init__("%s", say_nulls=True)

    def _ordered(self, entry: str) -> str:
        text = super()._ordered(entry)
        name = entry.removeprefix("-")
        return text.split(" NULLS ")[0] if name in FACTS and name != "holder" else text


class Kind(Struct, frozen=True):
    """What writes must have in common to be done by one statement, besides the fence's own values."""

    collection: Collection
    guard: Guard
    removes: bool
    releases: bool
    leases: Collection | None


@lru_cache(maxsize=512)
def write_one(kind: Kind) -> str:
    """Takes: fence key and term if any; then as the guard and act need, see `batch.one_params`."""
    name, columns = table(kind.collection), ("body", *field_columns(kind.collection))
    fence, stands = _fence(kind.leases)
    if kind.guard == "absent":
        return (
            f"{fence}INSERT INTO {name} (nonce, key, revision, term, expire, {', '.join(columns)}) "
            f"SELECT %s::bigint, %s, {DRAW}, 0, 0, {', '.join(_typed(kind.collection))} WHERE {stands} "
            "ON CONFLICT DO NOTHING RETURNING revision"
        )
    where = f"key = %s AND {kind.guard} = %s AND {stands}"
    if kind.removes:
        return f"{fence}DELETE FROM {name} WHERE {where} RETURNING 0"
    sets = "".join(f", {one} = %s" for one in columns)
    return (
        f"{fence}UPDATE {name} SET revision = {DRAW}, nonce = %s{sets}{_let_go(kind)} "
        f"WHERE {where} RETURNING revision"
    )


@lru_cache(maxsize=512)
def write_many(kind: Kind) -> str:
    """Takes what `write_one` takes, each value as an array; and returns the keys that were written."""
    name, columns = table(kind.collection), ("body", *field_columns(kind.collection))
    fence, stands = _fence(kind.leases)
    if kind.guard == "absent":
        return (
            f"{fence}INSERT INTO {name} (nonce, key, revision, term, expire, {', '.join(columns)}) "
            f"SELECT %s::bigint, given.key, {DRAW}, 0, 0, {', '.join(f'given.{one}' for one in columns)} "
            f"FROM {_given(kind.collection, 'key', *columns)} WHERE {stands} "
            "ON CONFLICT DO NOTHING RETURNING key, revision"
        )
    where = f"held.key = given.key AND held.{kind.guard} = given.expected AND {stands}"
    if kind.removes:
        given = _given(kind.collection, "key", "expected")
        return f"{fence}DELETE FROM {name} AS held USING {given} WHERE {where} RETURNING held.key, 0"
    sets = "".join(f", {one} = given.{one}" for one in columns)
    given = _given(kind.collection, *columns, "key", "expected")
    return (
        f"{fence}UPDATE {name} AS held SET revision = {DRAW}, nonce = %s{sets}{_let_go(kind)} "
        f"FROM {given} WHERE {where} RETURNING held.key, held.revision"
    )


def _fence(leases: Collection | None) -> tuple[str, str]:
    """The shared lock keeps anybody from taking the lease over before the write is committed."""
    if leases is None:
        return "", "TRUE"
    lease = f"SELECT 1 FROM {table(leases)} WHERE key = %s AND term = %s AND expire > {NOW} FOR SHARE"
    return f"WITH fence AS MATERIALIZED ({lease}) ", "EXISTS (SELECT 1 FROM fence)"


def _typed(collection: Collection) -> list[str]:
    return ["%s", *(f"%s::{TYPES[kind]}" for _, kind in collection.fields)]


def _let_go(kind: Kind) -> str:
    return ", expire = 0" if kind.releases else ""


def _given(collection: Collection, *names: str) -> str:
    kinds: dict[str, FieldType] = {column(field): kind for field, kind in collection.fields}
    kinds |= {"key": "text", "body": "text", "expected": "integer"}
    arrays = ", ".join(f"%s::{TYPES[kinds[name]]}[]" for name in names)
    return f"unnest({arrays}) AS given({', '.join(names)})"


@lru_cache(maxsize=256)
def hold(collection: Collection) -> str:
    """Rows of (key, holder, term, expire, now, out of date); a key that lost a race is missing.

    What others hold is neither locked nor written.
    """
    name = table(collection)
    return f"""
WITH {_CLOCK},
kept AS (
    UPDATE {name} AS held SET holder = %(holder)s, expire = greatest(held.expire, now + %(ttl)s::bigint),
        term = CASE WHEN held.expire > now THEN held.term ELSE {DRAW} END
    FROM clock WHERE held.key = ANY(%(keys)s) AND (held.expire <= now OR held.holder = %(holder)s)
    RETURNING held.key, held.holder, held.term, held.expire
),
made AS (
    INSERT INTO {name} (key, revision, term, holder, expire, nonce, body)
    SELECT given.key, {DRAW}, {DRAW}, %(holder)s, now + %(ttl)s::bigint, 0, '{{}}'
    FROM unnest(%(keys)s) AS given(key), clock
    WHERE NOT EXISTS (SELECT 1 FROM {name} AS there WHERE there.key = given.key)
    ON CONFLICT DO NOTHING RETURNING key, holder, term, expire
)
SELECT kept.*, now, FALSE FROM kept, clock
UNION ALL SELECT made.*, now, FALSE FROM made, clock
UNION ALL SELECT key, holder, term, expire, now, expire <= now OR holder = %(holder)s FROM {name}, clock
WHERE key = ANY(%(keys)s) AND key NOT IN (SELECT key FROM kept)"""


@lru_cache(maxsize=256)
def renew(collection: Collection) -> str:
    """Rows as those of `hold`; only documents that do not exist are missing."""
    name = table(collection)
    return f"""
WITH {_CLOCK},
given AS MATERIALIZED (SELECT * FROM unnest(%(keys)s, %(terms)s) AS given(key, term)),
kept AS (
    UPDATE {name} AS held SET expire = greatest(held.expire, now + %(ttl)s::bigint) FROM given, clock
    WHERE held.key = given.key AND held.term = given.term AND held.expire > now
    RETURNING held.key, held.holder, held.term, held.expire
)
SELECT kept.*, now, FALSE FROM kept, clock
UNION ALL SELECT held.key, held.holder, held.term, held.expire, now,
    held.term = given.term AND held.expire > now
FROM {name} AS held, given, clock WHERE held.key = given.key AND held.key NOT IN (SELECT key FROM kept)"""


@lru_cache(maxsize=256)
def release(collection: Collection) -> str:
    return (
        f"UPDATE {table(collection)} AS held SET expire = 0 "
        "FROM unnest(%(keys)s, %(terms)s) AS given(key, term) "
        "WHERE held.key = given.key AND held.term = given.term AND held.expire <> 0 RETURNING 1"
    )


@lru_cache(maxsize=256)
def by_key(collection: Collection) -> str:
    return f"SELECT {selected(collection)} FROM {table(collection)} WHERE key = ANY(%s)"


def counting(collection: Collection, conditions: str) -> str:
    return f"SELECT count(*) FROM (SELECT 1 FROM {table(collection)} WHERE {conditions} LIMIT %s) AS matching"


def claim(collection: Collection, conditions: str, order: str, sets: str, room: str) -> str:
    """`room` is the expression for how many may be taken. Terms are drawn in the claim's order."""
    name = table(collection)
    return (
        f"WITH {_CLOCK}, "
        f"free AS MATERIALIZED (SELECT key FROM {name} "
        f"WHERE {conditions} AND expire <= (SELECT now FROM clock) "
        f"ORDER BY {order} LIMIT {room} FOR NO KEY UPDATE SKIP LOCKED), "
        f"chosen AS MATERIALIZED (SELECT key, {DRAW} AS number FROM free) "
        f"UPDATE {name} AS held SET revision = chosen.number, term = chosen.number, holder = %s, "
        f"expire = clock.now + %s::bigint, nonce = %s{sets} FROM chosen, clock "
        f"WHERE held.key = chosen.key RETURNING {selected(collection, None, 'held.')}"
    )
