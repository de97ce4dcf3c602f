"""Servers that tests run against, each in a folder of its own that is gone afterwards."""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

import psutil
import psycopg
from psycopg import sql

_TIMEOUT_S = 60


class ServerMissing(Exception):
    """The server's programs are not on this machine."""


class Postgres:
    """A PostgreSQL that runs already; it is neither started nor stopped from here."""

    def __init__(self, url: str) -> None:
        self.url = url

    def create_database(self, name: str) -> str:
        """Create an empty database and return its URL."""
        self._execute("CREATE DATABASE {}", name)
        return urlsplit(self.url)._replace(path="/" + quote(name, safe="")).geturl()

    def drop_database(self, name: str) -> None:
        """Drop the database, and whoever is still connected to it."""
        self._execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def _execute(self, statement: str, name: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(name)))


class PostgresServer(Postgres):
    """A PostgreSQL of our own, durable as it comes, on a free loopback port.

    It keeps port and data through `kill`, `stop` and `start`; leaving the context removes both.
    """

    def __init__(self) -> None:
        self._binaries = _find_binaries()
        self._account = _unprivileged_account()
        self._port = _free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="tidemill-postgres-"))
        self._log = self._folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        super().__init__(f"postgresql://tidemill@127.0.0.1:{self._port}/postgres")
        if self._account:
            os.chown(self._folder, self._account.pw_uid, self._account.pw_gid)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def start(self) -> None:
        """Start the server, if it is down, and return once it accepts connections."""
        if self._runs():
            return
        data = self._folder / "data"
        if not data.exists():
            # The collation is not bytewise, as on most servers, so that nothing comes to rely on one that is.
            locale = ["--locale=C", "--encoding=UTF8", "--locale-provider=icu", "--icu-locale=en-US"]
            self._spawn("initdb", "-D", data, "-U", "tidemill", "-A", "trust", "--no-sync", *locale).wait(
                _TIMEOUT_S
            )
        settings = [f"port={self._port}", "listen_addresses=127.0.0.1", "max_connections=600"]
        settings.append(f"unix_socket_directories={self._folder}")
        flags = [word for setting in settings for word in ("-c", setting)]
        self._process = self._spawn("postgres", "-D", data, *flags)
        deadline = time.monotonic() + _TIMEOUT_S
        while not self._accepts():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{self._log.read_text()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Shut down in order, ending open connections. Nothing happens when it is down already."""
        if self._process and self._runs():
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_TIMEOUT_S)

    def restart(self) -> None:
        """Stop and start again."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """End the server and all its backends at once; nothing more is written. It may be down already."""
        if not self._process or not self._runs():
            return
        postmaster = psutil.Process(self._process.pid)
        # Stopped, it forks no more backends; killed last, none of them learns of its end and says goodbye.
        postmaster.suspend()
        backends = postmaster.children(recursive=True)
        for process in (*backends, postmaster):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(_TIMEOUT_S)
        # The next start is refused as long as a backend is attached to the shared memory.
        while any(map(_lives, backends)):
            time.sleep(0.005)

    def remove(self) -> None:
        """Kill it and delete its data."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _accepts(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _spawn(self, program: str, *arguments: str | Path) -> subprocess.Popen[bytes]:
        """Run a program of PostgreSQL; not as root, which it refuses, nor in reach of the tests' Ctrl-C."""
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [self._binaries / program, *arguments],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=self._account and self._account.pw_uid,
                group=self._account and self._account.pw_gid,
                extra_groups=[] if self._account else None,
            )


class S3Server:
    """An S3 of our own on a free loopback port, with one bucket; it holds everything in memory."""

    bucket = "tidemill-tests"

    def __enter__(self) -> Self:
        program = Path(__file__).parent / "s3_app.py"
        with tempfile.TemporaryFile() as log:
            self._process = subprocess.Popen(
                [sys.executable, program], stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
            assert self._process.stdout
            self.port = int(self._process.stdout.readline() or 0)
            if not self.port:
                log.seek(0)
                raise RuntimeError(f"the S3 server did not start:\n{log.read().decode()}")
        self._request(
            "PUT", f"/{self.bucket}", authorization="AWS4-HMAC-SHA256 Credential=tests/x/us-east-1/s3/x"
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def address(self, prefix: str, port: int | None = None) -> str:
        """The address of blobs below a prefix, by another port if there is something between."""
        options = {
            "endpoint": f"http://127.0.0.1:{port or self.port}",
            "region": "us-east-1",
            "access_key_id": "tests",
            "secret_access_key": "sesame",
        }
        return f"s3://{self.bucket}/{prefix}?{urlencode(options)}"

    def fail_next(
        self, method: str, containing: str = "", *, status: int = 503, code: str = "SlowDown", times: int = 1
    ) -> None:
        """Answer the next requests of that method, with these words in path or range, with an error."""
        fault = {"times": times, "method": method, "containing": containing, "status": status, "code": code}
        self._request("POST", "/+fail", json.dumps(fault).encode())

    def fill(self, keys: list[str]) -> None:
        """Put empty objects under these keys, faster than one request for each would."""
        self._request("POST", "/+fill", json.dumps({"bucket": self.bucket, "keys": keys}).encode())

    def log(self) -> list[str]:
        """The requests since the last look: method, path, range."""
        lines: list[str] = json.loads(self._request("GET", "/+log"))
        return lines

    def _request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> bytes:
        url = f"http://127.0.0.1:{self.port}{path}"
        with urlopen(Request(url, body, headers, method=method), timeout=_TIMEOUT_S) as answer:
            text: bytes = answer.read()
            return text


def _find_binaries() -> Path:
    found = shutil.which("postgres")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for place in places:
        if (place / "initdb").exists():
            return place
    raise ServerMissing(
        "no PostgreSQL on PATH or in /usr/lib/postgresql, and TIDEMILL_TEST_POSTGRES names none"
    )


def _unprivileged_account() -> pwd.struct_passwd | None:
    """Whom to run a server as; None when we are not root and may run it ourselves."""
    if os.geteuid() != 0:
        return None
    names = {account.pw_name for account in pwd.getpwall()}
    return pwd.getpwnam("postgres" if "postgres" in names else "nobody")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
