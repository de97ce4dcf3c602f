"""One file, shared by the processes of one machine through SQLite's own locks.

- `backend`   the verbs, as transactions
- `layout`    tables, columns and indexes, and how they grow
- `writes`    a batch of writes as few statements
- `counter`   the numbers that revisions and terms are drawn from
- `thread`    the one connection, where its work runs; the translation of driver errors
- `hosttime`  a clock that all processes of this machine agree on
- `pulse`     how processes tell each other that something changed; `inotify` for the kernel's part
"""

import apsw

from tidemill.store.backends.sqlite.backend import SqliteBackend

__all__ = ["SqliteBackend", "sqlite_version"]


def sqlite_version() -> str:
    """The version of the SQLite library in use."""
    return apsw.sqlite_lib_version()
