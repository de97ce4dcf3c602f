"""Tables, columns and indexes, and how they grow from one release to the next.

Everything here adds and nothing removes, so that older releases go on working beside newer ones.
"""

import apsw

from tidemill.store.backends.sql import Render, column, sparse, table, with_key
from tidemill.store.document import Collection
from tidemill.store.release import FIRST_RELEASE

_TYPES = {"text": "TEXT", "integer": "INTEGER", "real": "REAL"}

SETTINGS = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA journal_size_limit = 67108864;
PRAGMA cache_size = -32768;
PRAGMA foreign_keys = OFF;
"""

FOUNDATION = f"""
CREATE TABLE IF NOT EXISTS tidemill_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tidemill_counter (id INTEGER PRIMARY KEY CHECK (id = 0), drawn INTEGER NOT NULL);
INSERT OR IGNORE INTO tidemill_counter VALUES (0, 0);
INSERT OR IGNORE INTO tidemill_meta VALUES ('oldest_writer', '{FIRST_RELEASE}');
"""


def has_foundation(connection: apsw.Connection) -> bool:
    return _exists(connection, "table", "tidemill_counter")


def missing(connection: apsw.Connection, collection: Collection) -> list[str]:
    """The statements that would bring the file up to the collection's declaration."""
    name = table(collection)
    wanted = [(column(field), _TYPES[kind], field) for field, kind in collection.fields]
    if not _exists(connection, "table", name):
        fields = "".join(f", {column_name} {kind}" for column_name, kind, _ in wanted)
        create = (
            f"CREATE TABLE {name} (key TEXT PRIMARY KEY, revision INTEGER NOT NULL, term INTEGER NOT NULL, "
            f"holder TEXT, expire INTEGER NOT NULL, nonce INTEGER NOT NULL, body TEXT NOT NULL{fields})"
        )
        return [create, *_indexes(collection)]
    there = {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}
    steps: list[str] = []
    for column_name, kind, field in wanted:
        if column_name not in there:
            steps.append(f"ALTER TABLE {name} ADD COLUMN {column_name} {kind}")
            steps.append(f"UPDATE {name} SET {column_name} = json_extract(body, '$.{field}')")
    have = {row[1] for row in connection.execute(f"PRAGMA index_list({name})")}
    return steps + [step for step in _indexes(collection) if step.split()[2] not in have]


def _indexes(collection: Collection) -> list[str]:
    """Each ends in the key, as every order does."""
    render = Render("?", say_nulls=False)
    return [
        f"CREATE INDEX {table(collection)}__{'_'.join(fields)} "
        f"ON {table(collection)} ({render.index(with_key(fields))}){sparse(collection, fields)}"
        for fields in (*collection.indexes, *collection.sparse)
    ]


def _exists(connection: apsw.Connection, kind: str, name: str) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_schema WHERE type = ? AND name = ?", (kind, name))
    return found.fetchone() is not None
