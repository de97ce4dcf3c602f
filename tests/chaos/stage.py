"""The database, and the agents on it; whatever dies is started again."""

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import psutil

from chaos.words import TEMPORARY
from servers import PostgresServer

TESTS = Path(__file__).parent.parent
LIBFAKETIME = "libfaketimeMT.so.1"
EXPECTED_ENDS = {0, -signal.SIGKILL, TEMPORARY}

_HOLD_LOCK = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
connection.execute("INSERT INTO chaos_record (collection, key) VALUES ('none', 'never committed')")
print("held", flush=True)
time.sleep(3600)
"""


class Database(Protocol):
    """A database that can be hurt."""

    url: str

    async def crash(self, away_s: float) -> None:
        """Be away for so long, with no goodbye, and come back."""


class SqliteFile:
    """Its crash is another process that stops in the middle of a transaction, and is killed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "store.db"
        self.url = f"sqlite:///{self._path}"

    async def crash(self, away_s: float) -> None:
        holder = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _HOLD_LOCK, str(self._path), stdout=asyncio.subprocess.PIPE
        )
        assert holder.stdout is not None
        await holder.stdout.readline()
        await asyncio.sleep(away_s)
        holder.kill()
        await holder.wait()


class PostgresDatabase:
    """Its crash is the end of all its processes at once; its start is the recovery from its log."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._turn = asyncio.Lock()
        self.url = server.create_database("chaos")

    async def crash(self, away_s: float) -> None:
        async with self._turn:
            await asyncio.to_thread(self._server.kill)
            await asyncio.sleep(away_s)
            await asyncio.to_thread(self._server.start)


class Agent:
    """One name, under which one process after another takes part."""

    def __init__(self, url: str, name: str, folder: Path, *flags: str, clock: str | None = None) -> None:
        self.name = name
        self.said: list[dict[str, Any]] = []
        self.ends: list[int] = []
        self.process: asyncio.subprocess.Process | None = None
        self.clock = clock
        self.folder = folder / name
        self._command = [sys.executable, "-m", "chaos.agent", url, name, str(self.folder), *flags]
        self._heard = asyncio.Condition()
        self._stays_down = False

    async def live(self, source: random.Random) -> None:
        """Run, and run again after each end, until told to stay down."""
        self.folder.mkdir(parents=True, exist_ok=True)
        while not self._stays_down:
            await self._run_once()
            if not self._stays_down:
                await asyncio.sleep(source.uniform(0.2, 3.0))

    async def wait_for(self, wanted: Callable[[Mapping[str, Any]], bool], since: int = 0) -> None:
        """Until it says that, or has said so since its so-many-th line."""
        async with self._heard:
            await self._heard.wait_for(lambda: any(wanted(line) for line in self.said[since:]))

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def send(self, number: signal.Signals) -> bool:
        """False when there is nobody to send it to."""
        process = self.process
        if process is None or process.returncode is not None:
            return False
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
            return True
        return False

    def let_go_on(self) -> None:
        """Tell it to start."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")

    def limit_files(self, limit: int) -> None:
        """No file may grow beyond that: 0 is a full disk, of this process alone."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                found = psutil.Process(self.process.pid)
                _, hard = found.rlimit(psutil.RLIMIT_FSIZE)
                found.rlimit(psutil.RLIMIT_FSIZE, (limit, hard))

    def stay_down(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._stays_down = True
        self.send(number)

    async def _run_once(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=self._environment(),
            )
        assert self.process.stdout is not None
        try:
            async for line in self.process.stdout:
                # A process that is killed may leave half a line.
                if line.endswith(b"\n"):
                    async with self._heard:
                        self.said.append(json.loads(line))
                        self._heard.notify_all()
            self.ends.append(await self.process.wait())
        finally:
            if self.process.returncode is None:
                self.process.kill()
                await self.process.wait()

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path}
        if self.clock is not None:
            # Only the time of day is off: what a machine counts from its start cannot be set.
            environment |= {"LD_PRELOAD": str(faketime()), "FAKETIME": self.clock}
            environment["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
        return environment


def faketime() -> Path | None:
    """The library that gives a process another time of day; None where it is not installed."""
    return next(Path("/usr/lib").glob(f"*/faketime/{LIBFAKETIME}"), None)


class Stage:
    """A database and the agents that live on it."""

    def __init__(self, database: Database, folder: Path, source: random.Random) -> None:
        self.database = database
        self.folder = folder
        self.source = source
        self.agents: list[Agent] = []
        self.gone: list[Agent] = []
        self._lives: dict[Agent, asyncio.Task[None]] = {}

    def enter(self, name: str, *flags: str, clock: str | None = None) -> Agent:
        """One more agent, which lives from now on."""
        agent = Agent(self.database.url, name, self.folder, *flags, clock=clock)
        self.agents.append(agent)
        self._lives[agent] = asyncio.create_task(agent.live(self.source))
        return agent

    async def leave(self, agent: Agent, number: signal.Signals = signal.SIGTERM) -> None:
        """End it for good."""
        agent.stay_down(number)
        self.agents.remove(agent)
        self.gone.append(agent)
        await self._lives.pop(agent)

    async def close(self) -> None:
        """Whatever still runs is killed."""
        for task in self._lives.values():
            task.cancel()
        await asyncio.gather(*self._lives.values(), return_exceptions=True)

    def said(self) -> list[dict[str, Any]]:
        return [line for agent in (*self.agents, *self.gone) for line in agent.said]

    def bad_ends(self) -> list[str]:
        """Agents that ended by themselves, other than because they could not join."""
        return [
            f"agent {agent.name} ended by itself with {code}; see {agent.folder / 'log'}"
            for agent in (*self.agents, *self.gone)
            for code in agent.ends
            if code not in EXPECTED_ENDS
        ]
