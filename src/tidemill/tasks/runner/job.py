"""What a runner is given, and what is told of it: the seam between running tasks and all the rest."""

from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from tidemill.tasks.policy import Policy

Stream: TypeAlias = Literal["stdout", "stderr"]
Cause: TypeAlias = Literal["timeout", "memory", "output", "cancel", "shutdown"]

SMALL = 32 * 1024
"""Outputs up to so many bytes are told as bytes, larger ones as files."""

MB = 1_000_000


class Limits(Struct, frozen=True, array_like=True):
    """What a job may take, and how long it may go on after it was told to end."""

    timeout_s: float | None = None
    grace_s: float = 5.0
    memory_mb: int | None = None
    output_mb: int = 256


def limits_of(policy: Policy) -> Limits:
    """The limits that a queue's policy sets."""
    return Limits(policy.timeout_s, policy.grace_s, policy.memory_mb, policy.output_mb)


class Job(Struct, frozen=True, array_like=True):
    """One attempt at one task.

    `payload` is the pickled call of a function task. `context` is what code that runs can ask for besides.
    """

    id: str
    fence: int
    attempt: int
    queue: str
    kind: Literal["plugin", "function"]
    plugin: str | None = None
    params: Any = None
    payload: bytes | None = None
    context: dict[str, Any] = {}  # msgspec gives each its own
    limits: Limits = Limits()


class Recycle(Struct, frozen=True):
    """After how many tasks, or at what size, a warm runner is replaced by a fresh one."""

    tasks: int = 10_000
    memory_mb: int = 512


class Output(Struct, frozen=True):
    """What a job wrote on one stream: its bytes, or the file that has them.

    A file belongs to whoever is told of it, who moves it away before returning, or discards it.
    """

    size: int = 0
    content: bytes | None = b""
    path: Path | None = None

    def read(self) -> bytes:
        """All of it. The file stays."""
        if self.path is not None:
            return self.path.read_bytes()
        return self.content or b""

    def discard(self) -> None:
        """Delete the file, if there is one. May be called twice."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


class Finished(Struct, frozen=True):
    """It came to an end by itself. `reason` says what was wrong, if it was not told by the job itself.

    `result` is the outcome of a function, or the plugin's result as JSON.
    """

    status: int
    result: bytes | None = None
    stdout: Output = Output()
    stderr: Output = Output()
    exit_code: int | None = None
    reason: str | None = None


class Crashed(Struct, frozen=True):
    """What ran it died under it, or gave an answer that is none."""

    reason: str
    exit_code: int | None = None
    stdout: Output = Output()
    stderr: Output = Output()


class Stopped(Struct, frozen=True):
    """It was ended: it took more than it may, somebody cancelled it, or the pool stopped while it ran."""

    reason: str
    cause: Cause
    stdout: Output = Output()
    stderr: Output = Output()


class Untouched(Struct, frozen=True):
    """It was handed in and never begun: it can be run elsewhere as if nothing had been.

    With `trouble`, that is because this machine cannot run anything now.
    """

    reason: str
    trouble: bool = False


Ending: TypeAlias = Finished | Crashed | Stopped | Untouched


class Listener(Protocol):
    """Is told of jobs, on the pool's event loop, in order. It must not raise."""

    def started(self, job: Job) -> None:
        """A runner has it as its next or present work; told again if another gets it before it has begun."""

    def progressed(self, job: Job, percent: float | None, info: str | None) -> None:
        """It says how far it is; at most some 20 times a second, and the last word always."""

    def wrote(self, job: Job, stream: Stream, offset: int, data: bytes) -> None:
        """It has written more, seen while it runs, a few times a second; its end tells everything again."""

    def ended(self, job: Job, ending: Ending) -> None:
        """Exactly once for every job that was handed in. Nothing of the job runs any more."""
