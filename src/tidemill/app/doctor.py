"""Whether this machine and this store are fit for Tidemill: small checks, each with its fix.

A check never raises; what it finds is a `Finding`. `examine` runs them all.
"""

import errno
import os
import platform
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from http.client import HTTPException
from importlib import import_module, metadata
from pathlib import Path

import tidemill
from tidemill.app.mask import masked_text
from tidemill.app.settings import Settings
from tidemill.base.ids import new_token
from tidemill.pipeline.runtimes.java import find_java
from tidemill.store import Collection, Store, StoreError, open_store

OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 51, 3)
SLOW_FSYNC_MS = 50.0
SLOW_WRITE_MS = 250.0
LARGE_SKEW_MS = 1000.0

TRIAL = (sys.executable, "-m", "tidemill.pipeline.runtimes.trial")
TRIAL_TIMEOUT_S = 180

_ROUNDS = 8
_SCRATCH = Collection("doctor")


class State(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check saw, and what to do about it."""

    check: str
    state: State
    message: str
    fix: str | None = None


async def examine(settings: Settings, *, spark: bool = False) -> list[Finding]:
    """Run all checks, those of the machine first; with `spark`, start that too, which takes a while."""
    return [
        check_python(),
        check_java(),
        try_spark() if spark else check_spark(),
        check_sqlite(),
        check_data(settings.data),
        check_port(settings),
        *await check_store(settings),
    ]


def check_python() -> Finding:
    good = sys.version_info >= OLDEST_PYTHON
    needed = ".".join(map(str, OLDEST_PYTHON))
    return Finding(
        "python",
        State.OK if good else State.PROBLEM,
        f"Python {platform.python_version()}",
        None if good else f"install Python {needed} or newer",
    )


def check_java() -> Finding:
    java = find_java()
    if java is None:
        fix = "pip install 'tidemill[java]', or install a JDK 17 or 21; tasks and the cluster work without"
        return Finding("java", State.WARNING, "no Java that Spark runs on, so pipelines cannot run", fix)
    return Finding("java", State.OK, str(java))


def check_spark() -> Finding:
    """Which Spark is installed; whether it runs, `try_spark` tells."""
    try:
        return Finding("spark", State.OK, f"PySpark {metadata.version('pyspark')}")
    except metadata.PackageNotFoundError:
        fix = "pip install 'tidemill[spark]'; tasks and the cluster work without"
        return Finding("spark", State.WARNING, "PySpark is not installed, so pipelines cannot run", fix)


def try_spark(trial: Sequence[str] = TRIAL) -> Finding:
    """Start Spark and run a tiny query through a Python task."""
    try:
        answer = subprocess.run(trial, capture_output=True, text=True, timeout=TRIAL_TIMEOUT_S, check=True)
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or ["it said nothing"])[-1]
    except subprocess.TimeoutExpired:
        reason = f"no answer within {TRIAL_TIMEOUT_S} s"
    else:
        return Finding("spark", State.OK, answer.stdout.strip())
    return Finding(
        "spark", State.PROBLEM, f"Spark does not run: {reason}", f"see all of it: {' '.join(trial)}"
    )


def check_sqlite() -> Finding:
    """Older ones can corrupt a database when its write-ahead log starts anew."""
    try:
        # By name, as this loads the driver.
        version: str = import_module("tidemill.store.backends.sqlite").sqlite_version()
    except ImportError as error:
        return Finding("sqlite", State.PROBLEM, f"SQLite cannot be loaded: {error}", "pip install apsw")
    if tuple(map(int, version.split("."))) < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        return Finding(
            "sqlite", State.PROBLEM, f"SQLite {version}", f"pip install -U apsw ({needed} or newer)"
        )
    return Finding("sqlite", State.OK, f"SQLite {version}")


def check_data(folder: Path) -> Finding:
    """Whether the data folder takes files, and how long until one is safe on the disk."""
    where = folder.absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            times = [_synced_write_ms(file.fileno()) for _ in range(_ROUNDS)]
    except OSError as error:
        fix = "make it writable for this user, or name another with --data"
        return Finding("data", State.PROBLEM, f"{where} cannot be written: {error.strerror}", fix)
    middle = statistics.median(times)
    message = f"{where} is writable, fsync takes {middle:.1f} ms"
    if middle > SLOW_FSYNC_MS:
        return Finding("data", State.WARNING, message, "put the folder on a faster disk, or use PostgreSQL")
    return Finding("data", State.OK, message)


def check_port(settings: Settings) -> Finding:
    """Whether the node's port is free, or a node already answers there."""
    where = (
        f"[{settings.host}]:{settings.port}" if ":" in settings.host else f"{settings.host}:{settings.port}"
    )
    try:
        family, kind, _, _, target = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(target)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and _answers_as_tidemill(where):
            return Finding("port", State.OK, f"a Tidemill node answers on {where}")
        fix = "stop what uses it, or choose another with --port; check --host"
        return Finding("port", State.PROBLEM, f"cannot listen on {where}: {error.strerror or error}", fix)
    return Finding("port", State.OK, f"{where} is free")


async def check_store(settings: Settings) -> list[Finding]:
    """Whether the store opens to this release; if so, its clock and its compare-and-set."""
    shown = masked_text(settings.store)
    try:
        async with open_store(settings.store) as store:
            release = await store.oldest_writer()
            opened = f"{shown} opens to release {tidemill.__version__} (oldest that may write: {release})"
            return [
                Finding("store", State.OK, opened),
                await _guarded("clock", check_clock, store),
                await _guarded("cas", check_cas, store),
            ]
    except (StoreError, OSError) as error:
        fix = "check the address (--store), that the database runs, and that this release is not too old"
        return [Finding("store", State.PROBLEM, f"{shown}: {masked_text(str(error))}", fix)]


async def check_clock(store: Store) -> Finding:
    """This machine's clock against the store's, taken at the middle of the quickest round trip."""
    skews = []
    for _ in range(_ROUNDS):
        sent = time.time()
        theirs = await store.now()
        received = time.time()
        skews.append((received - sent, (sent + received) / 2 * 1000 - theirs))
    trip, skew = min(skews)
    message = f"{skew:+.0f} ms to the store's clock (± {trip * 500:.1f} ms)"
    if abs(skew) > LARGE_SKEW_MS:
        fix = "let both machines set their clocks by NTP; leases do not suffer, logs are hard to read"
        return Finding("clock", State.WARNING, message, fix)
    return Finding("clock", State.OK, message)


async def check_cas(store: Store) -> Finding:
    """Create, replace and delete a document of our own, and time it."""
    key, times = new_token(), []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        revision = await store.create(_SCRATCH, key, {"round": 1})
        revision = await store.replace(_SCRATCH, key, {"round": 2}, expect=revision)
        await store.delete(_SCRATCH, key, expect=revision)
        times.append((time.perf_counter() - started) * 1000 / 3)
    middle = statistics.median(times)
    message = f"compare-and-set takes {middle:.1f} ms"
    if middle > SLOW_WRITE_MS:
        return Finding("cas", State.WARNING, message, "bring the store nearer, or give it a faster disk")
    return Finding("cas", State.OK, message)


async def _guarded(name: str, check: Callable[[Store], Awaitable[Finding]], store: Store) -> Finding:
    try:
        return await check(store)
    except StoreError as error:
        return Finding(name, State.PROBLEM, masked_text(str(error)), "see what the database's own log says")


def _synced_write_ms(descriptor: int) -> float:
    started = time.perf_counter()
    os.write(descriptor, bytes(4096))
    os.fsync(descriptor)
    return (time.perf_counter() - started) * 1000


def _answers_as_tidemill(where: str) -> bool:
    # It is asked for its name and trusted with nothing, so its certificate does not matter.
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    for scheme in ("http", "https"):
        try:
            url = f"{scheme}://{where}/healthz"
            with urllib.request.urlopen(url, timeout=1, context=unverified) as answer:
                return b'"tidemill"' in answer.read(1000)
        except (OSError, ValueError, HTTPException):
            continue
    return False
