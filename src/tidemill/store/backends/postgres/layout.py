"""Tables, columns and indexes, and how they grow from one release to the next.

Everything here adds and nothing removes, so that older releases go on working beside newer ones. What
is there is read from the catalogue first, so that nothing is locked when nothing is missing.
"""

import hashlib
from collections.abc import Iterable, Sequence

from tidemill.store.backends.postgres.statements import TYPES, PostgresRender
from tidemill.store.backends.sql import column, sparse, table, with_key
from tidemill.store.document import Collection, FieldType
from tidemill.store.release import FIRST_RELEASE

_NAME_BYTES = 63
_LOCK = 7_236_271_405_318

# The server carries the whole script out even if its sender gives up on it, and does so unhurried: a
# large table that takes longer than one call may take is then ready at a later one.
_BEGIN = f"BEGIN; SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock({_LOCK})"

_FOUNDATION = (
    'CREATE TABLE IF NOT EXISTS tidemill_meta (name text COLLATE "C" PRIMARY KEY, value text NOT NULL)',
    "CREATE SEQUENCE IF NOT EXISTS tidemill_drawn",
    f"INSERT INTO tidemill_meta VALUES ('oldest_writer', '{FIRST_RELEASE}') ON CONFLICT DO NOTHING",
)

OLDEST_SERVER = 130_000
FOUND = """
SELECT current_setting('server_version_num')::integer, current_setting('server_encoding'),
    to_regclass('tidemill_drawn') IS NOT NULL"""
"""The server's version, the encoding, and whether the foundation is laid."""

THERE = """
SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%(table)s) AND attnum > 0 AND NOT attisdropped
UNION ALL
SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid = to_regclass(%(table)s)"""
"""The columns and indexes of a table."""

# Facts that every update changes stand first and are fixed in size. The room left in each page keeps
# a document's next version beside it, so that indexes over what did not change need not be touched.
# Claims read an index from its oldest end, where dead entries gather until they are vacuumed: that must
# not wait for a fifth of a large table to die.
_FACTS = (
    "revision bigint NOT NULL, term bigint NOT NULL, expire bigint NOT NULL, nonce bigint NOT NULL, "
    'key text COLLATE "C" PRIMARY KEY, holder text COLLATE "C", body text NOT NULL'
)
_CARE = "WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000)"


def foundation() -> str:
    return _script(_FOUNDATION)


def missing(collection: Collection, there: Iterable[str]) -> str | None:
    """The script that brings the database up to the collection's declaration, or None if it is."""
    name, known = table(collection), set(there)
    steps: list[str] = []
    if not known:
        columns = "".join(f", {_column(field, kind)}" for field, kind in collection.fields)
        steps.append(f"CREATE TABLE IF NOT EXISTS {name} ({_FACTS}{columns}) {_CARE}")
    else:
        for field, kind in collection.fields:
            if column(field) not in known:
                steps.append(f"ALTER TABLE {name} ADD COLUMN IF NOT EXISTS {_column(field, kind)}")
                steps.append(_fill(name, field, kind))
    steps += [
        # With the key at its end, an index serves orders in full: ties go by key.
        f"CREATE INDEX IF NOT EXISTS {index} ON {name} "
        f"({PostgresRender().index(with_key(fields))}){sparse(collection, fields)}"
        for fields in (*collection.indexes, *collection.sparse)
        if (index := index_name(collection, fields)) not in known
    ]
    return _script(steps) if steps else None


def index_name(collection: Collection, fields: Sequence[str]) -> str:
    """PostgreSQL would cut a long name short, and then two could become one."""
    name = f"{table(collection)}__{'_'.join(fields)}"
    if len(name) <= _NAME_BYTES:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"{name[: _NAME_BYTES - 11]}_{digest}"


def _script(steps: Iterable[str]) -> str:
    return "; ".join((_BEGIN, *steps, "COMMIT"))


def _column(field: str, kind: FieldType) -> str:
    collation = ' COLLATE "C"' if kind == "text" else ""
    return f"{column(field)} {TYPES[kind]}{collation}"


def _fill(name: str, field: str, kind: FieldType) -> str:
    """Take a field that has become a declared one from the body, where its value is of that type.

    PostgreSQL's JSON has no NUL; a declared field has none either, so it is left out of what is read.
    """
    readable = r"regexp_replace(body, '(?<!\\)((?:\\\\)*)\\u0000', '\1', 'g')::json"
    value = f"{readable} ->> '{field}'"
    wanted = {"text": "string", "integer": "number", "real": "number"}[kind]
    fits = f"json_typeof({readable} -> '{field}') = '{wanted}'"
    if kind == "integer":
        fits += rf" AND {value} ~ '^-?\d{{1,18}}$'"
    return (
        f"UPDATE {name} SET {column(field)} = ({value})::{TYPES[kind]} "
        f"WHERE {column(field)} IS NULL AND CASE WHEN body LIKE '%\"{field}\"%' THEN {fits} ELSE FALSE END"
    )
