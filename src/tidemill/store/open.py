"""From an address to a store."""

import random
from pathlib import Path
from urllib.parse import urlsplit

from tidemill.base.version import __version__
from tidemill.store.backend import Backend
from tidemill.store.backends.memory import MemoryBackend, MemoryServer
from tidemill.store.errors import BadRequest
from tidemill.store.store import Store

ADDRESSES = "memory:, sqlite:///path or postgresql://host/database"

_memory: dict[str, MemoryServer] = {}


def open_store(
    url: str,
    *,
    timeout_s: float = 10.0,
    connections: int = 8,
    release: str = __version__,
    source: random.Random | None = None,
    create: bool = True,
) -> Store:
    """The store at an address; nothing is touched before it is entered or opened.

    One that is not there is made then or, without `create`, refused with `NoStore`.

    `memory:` is empty and private; `memory:name` is shared by all of this process that name it. A node's
    address, `http://host:port`, offers locks and semaphores alone.
    """
    backend = _backend(url, connections, release, timeout_s, create)
    return Store(backend, timeout_s=timeout_s, source=source)


def absolute_url(url: str) -> str:
    """An address that names the same store from any working directory."""
    if not url.startswith("sqlite:"):
        return url
    return f"sqlite:///{Path(_sqlite_path(url)).absolute()}"


def _backend(url: str, connections: int, release: str, timeout_s: float, create: bool) -> Backend:
    # Drivers are imported here and not above, so that `import tidemill` loads none of them.
    match urlsplit(url).scheme:
        case "memory":
            return MemoryBackend(_memory_server(url.removeprefix("memory:")), release)
        case "sqlite":
            from tidemill.store.backends.sqlite import SqliteBackend

            return SqliteBackend(_sqlite_path(url), release, timeout_s, create=create)
        case "postgresql" | "postgres":
            try:
                from tidemill.store.backends.postgres import PostgresBackend
            except ImportError as error:
                raise BadRequest("PostgreSQL needs its driver: pip install 'tidemill[postgres]'") from error
            return PostgresBackend(url, release, connections, create=create)
        case "http" | "https":
            from tidemill.store.backends.node import NodeBackend

            return NodeBackend(url)
    raise BadRequest(f"{_shown(url)!r} is not the address of a store; use {ADDRESSES}")


def _shown(url: str) -> str:
    """Without what may be a password: that is no word for an error message."""
    there = url.partition("?")[0]
    return f"***@{there.rpartition('@')[2]}" if "@" in there else there


def _memory_server(name: str) -> MemoryServer:
    return _memory.setdefault(name, MemoryServer()) if name else MemoryServer()


def _sqlite_path(url: str) -> str:
    """`sqlite:///relative`, `sqlite:////absolute`; both as in other tools."""
    path = url.removeprefix("sqlite:")
    if not path.startswith("///") or path == "///":
        raise BadRequest(f"{url!r} names no file; write sqlite:///relative/path or sqlite:////absolute/path")
    return path.removeprefix("///")
