"""Empty stores for the trials of `tasks.py`: each trial begins on one of its own."""

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Self

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from servers import PostgresServer, ServerMissing
from task_peers.catalogue import Place

_START_S = 10.0
REDIS_FLAGS = {
    "redis": ("--appendonly", "no"),
    "redis-aof": ("--appendonly", "yes", "--appendfsync", "everysec"),
}


class Places:
    """Where stores come from. PostgreSQL is started when it is first needed, and lives until the end."""

    def __init__(self) -> None:
        self._postgres: PostgresServer | None = None
        self._names = (f"tasks_{number}" for number in count())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._postgres is not None:
            self._postgres.remove()

    @contextmanager
    def empty(self, place: Place) -> Iterator[str]:
        """The address of an empty store that is gone afterwards. Raises ServerMissing."""
        if place == "postgres":
            server, name = self._server(), next(self._names)
            try:
                yield server.create_database(name)
            finally:
                server.drop_database(name)
            return
        with tempfile.TemporaryDirectory(prefix="tidemill-tasks-", ignore_cleanup_errors=True) as folder:
            if place == "sqlite":
                yield f"sqlite:///{folder}/store.db"
            else:
                with redis_server(Path(folder), REDIS_FLAGS[place]) as url:
                    yield url

    def _server(self) -> PostgresServer:
        if self._postgres is None:
            server = PostgresServer()
            server.__enter__()
            self._postgres = server
        return self._postgres


@contextmanager
def redis_server(folder: Path, flags: tuple[str, ...]) -> Iterator[str]:
    """A Redis of our own on a free loopback port, with its files in a folder."""
    program = shutil.which("redis-server")
    if program is None:
        raise ServerMissing("no redis-server on PATH")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = [
        program,
        "--bind",
        "127.0.0.1",
        "--port",
        str(port),
        "--save",
        "",
        "--dir",
        str(folder),
        *flags,
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, process)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.kill()
        process.wait()


def disk_of_stores() -> str:
    """The kind of file system that stores are on: in memory, durability would cost nothing."""
    place = Path(tempfile.gettempdir()).resolve()
    mounts = [part for part in psutil.disk_partitions(all=True) if place.is_relative_to(part.mountpoint)]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else "unknown"


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("Redis did not start") from None
            time.sleep(0.02)
        else:
            return
