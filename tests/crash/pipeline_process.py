"""Children that run pipelines, from the side of the test."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Any, Self

import msgspec

from crash.pipeline_child import Job
from crash.processes import TESTS

MEMORY = Path("/dev/shm")
"""What is killed here is a process and no machine, so that files need not reach a disk."""

THREADLESS = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}


class Children:
    """A process that has everything loaded and forks a child for each job; one job at a time."""

    def __init__(self, module: str = "crash.pipeline_child") -> None:
        self._stopped = 0
        environment = {**os.environ, **THREADLESS, "PYTHONPATH": str(TESTS)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def run(self, job: msgspec.Struct) -> int:
        """How the child ended, as `Popen.returncode` says it."""
        self.begin(job)
        return self.wait()

    def begin(self, job: msgspec.Struct) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(job) + b"\n")
        self._process.stdin.flush()

    def wait(self) -> int:
        """Wait for the end of the child; it must not stop before."""
        return int(self._hear()["code"])

    def wait_stopped(self) -> int:
        """Wait until the child has stopped; the number of its process."""
        self._stopped = int(self._hear()["stopped"])
        return self._stopped

    def resume(self) -> int:
        """Let the child that has stopped go on to its end."""
        os.kill(self._stopped, signal.SIGCONT)
        self._stopped = 0
        return self.wait()

    def close(self) -> None:
        """Ends when the child has; one that has stopped is killed."""
        if self._stopped:
            os.kill(self._stopped, signal.SIGKILL)
        self._process.communicate()

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        heard: dict[str, Any] = json.loads(self._process.stdout.readline())
        return heard

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Folder:
    """Where one pipeline lives, in memory if there is room; gone after the `with` block."""

    def __init__(self, store: str | None = None) -> None:
        self.path = Path(mkdtemp(prefix="tidemill-", dir=MEMORY if MEMORY.is_dir() else None))
        self.store = store or f"sqlite:///{self.path}/store.db"

    def job(self, **options: Any) -> Job:
        """A job that goes on after the acts that were done here."""
        return Job(str(self.path), self.store, start=self.done, **options)

    @property
    def done(self) -> int:
        """How many acts were acknowledged."""
        said = self.path / "said"
        return len(said.read_text().splitlines()) if said.exists() else 0

    @property
    def report(self) -> dict[str, Any]:
        """What there was to be seen in the end."""
        found: dict[str, Any] = json.loads((self.path / "report.json").read_text())
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
