"""The processes of a trial: producers that answer with JSON, and workers that are measured and killed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from task_peers.catalogue import Command, System

_HERE = Path(__file__).parent
_DRIVE_S = 300
_TAIL = 400

PEERS = _HERE.parent / ".cache" / "bench-tasks" / "venv"


class TrialFailed(Exception):
    """A system could not do what a trial asks; the message says why."""


@dataclass(frozen=True)
class Stage:
    """One system on one empty store, with a folder for logs and a file in memory for marks."""

    system: System
    store: str
    trial: str
    folder: Path
    marks: Path

    def drive(self, verb: str, *rest: object) -> dict[str, Any]:
        """What the producer answers. Raises `TrialFailed` with the end of what it said otherwise."""
        command = [str(self._bin / "python"), "-m", "task_peers.drive", self.system.module, verb]
        command += map(str, rest)
        try:
            done = subprocess.run(
                command,
                env=self._environment(),
                capture_output=True,
                text=True,
                timeout=_DRIVE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TrialFailed(f"{verb} took more than {_DRIVE_S} s") from None
        if done.returncode != 0 or not done.stdout.strip():
            raise TrialFailed(f"{verb}: {_end_of(done.stderr)}")
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    @contextmanager
    def workers(self, commands: Sequence[Command]) -> Iterator[list[psutil.Popen]]:
        """Start these; at the end they and all that they started are killed."""
        crew = [self._start(number, command) for number, command in enumerate(commands)]
        try:
            yield crew
        finally:
            for one in crew:
                kill(one)

    def check_alive(self, crew: Sequence[psutil.Popen]) -> None:
        """Raise `TrialFailed` when one has ended by itself."""
        for number, one in enumerate(crew):
            if one.poll() is not None:
                raise TrialFailed(f"a worker ended by itself: {_end_of(self._log(number).read_text())}")

    def _start(self, number: int, command: Command) -> psutil.Popen:
        filled = [word.format(store=self.store, folder=self.folder, n=number) for word in command]
        program = self._bin / filled[0]
        with self._log(number).open("wb") as log:
            return psutil.Popen(
                [str(program), *filled[1:]],
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _log(self, number: int) -> Path:
        return self.folder / f"worker-{number}.log"

    @property
    def _bin(self) -> Path:
        return Path(sys.executable).parent if self.system.ours else PEERS / "bin"

    def _environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("TIDEMILL_")},
            **self.system.environment,
            "PYTHONPATH": str(_HERE),
            "BENCH_STORE": self.store,
            "BENCH_TRIAL": self.trial,
            "BENCH_MARKS": str(self.marks),
        }


def family(one: psutil.Process) -> list[psutil.Process]:
    """A process and all that descend from it."""
    with suppress(psutil.NoSuchProcess):
        return [one, *one.children(recursive=True)]
    return []


def kill(one: psutil.Popen) -> None:
    """End a worker as a power cut would: supervisor and children at once, none of which sees another die."""
    members = family(one)
    for act in (psutil.Process.suspend, psutil.Process.kill):
        for member in members:
            with suppress(psutil.NoSuchProcess):
                act(member)
    one.wait()


def cpu_s(crew: Sequence[psutil.Process]) -> float:
    """What these and all that descend from them have used."""
    spent = 0.0
    for member in [member for one in crew for member in family(one)]:
        with suppress(psutil.NoSuchProcess):
            times = member.cpu_times()
            spent += times.user + times.system
    return spent


def _end_of(said: str) -> str:
    return " ".join(said.split())[-_TAIL:]
