"""A program in any language, run once for one task.

It is given the task as JSON on its standard input and in the file TIDEMILL_TASK, and its id, attempt and
fence as TIDEMILL_TASK_ID, TIDEMILL_ATTEMPT and TIDEMILL_FENCE. It may answer as JSON in the file
TIDEMILL_RESPONSE (`answer` says what), and tell how far it is with lines of JSON on the descriptor
TIDEMILL_PROGRESS:

    {"percent": 40, "info": "reading"}

Without a response, its exit code says whether all went well.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tidemill.tasks.runner.answer import Verdict, clean, failed, read_response
from tidemill.tasks.runner.attended import Attended, Host
from tidemill.tasks.runner.capture import Capture
from tidemill.tasks.runner.job import MB, Crashed, Ending, Finished, Job, Output, Stopped
from tidemill.tasks.runner.overstep import overstepped
from tidemill.tasks.runner.processes import death_of
from tidemill.tasks.runner.wire import Launch

_LINES = 64 * 1024
_READS = 16


class Told(Struct, frozen=True):
    """How far a program says it is."""

    percent: float | None = None
    info: str | None = None


class Program(Attended):
    """One process for one job. Raises OSError when it cannot be asked for, ValueError for a bad task."""

    def __init__(self, host: Host, folder: Path, job: Job, command: Sequence[str]) -> None:
        content, ticket = _task(job), host.starting.ticket()
        super().__init__(host, ticket, Capture(folder, f"program-{ticket}"))
        self._job = job
        self._files = folder / f"program-{ticket}"
        self._progress, theirs = os.pipe2(os.O_CLOEXEC)
        self._lines = b""
        os.set_blocking(self._progress, False)
        try:
            self._files.mkdir(mode=0o700)
            task = self._files / "task.json"
            task.write_bytes(content)
            with task.open("rb") as stdin:
                fds = (stdin.fileno(), *self._capture.fds, theirs)
                host.starting.begin(self, Launch(ticket, list(command), self._environment()), fds)
        except OSError:
            self._close()
            self._capture.discard()
            raise
        finally:
            os.close(theirs)

    @property
    def job(self) -> Job:
        return self._job

    def began(self, pid: int) -> None:
        super().began(pid)
        self._begin(self._job)

    def refused(self, reason: str) -> None:
        self._close()
        self._capture.discard()
        verdict = failed(f"the program cannot be started: {reason}")
        stderr = Output(len(verdict.stderr), verdict.stderr)
        self._host.end(self._job, Finished(verdict.status, stderr=stderr, reason=verdict.reason))
        self._host.gone(self, [])

    def ended(self, code: int) -> None:
        self._hear_progress()
        self._host.end(self._job, self._ending(code))
        self._close()
        self._host.gone(self, [])

    def _ending(self, code: int) -> Ending:
        stop = self.stop_reason or overstepped(self._job.limits, 0, self._capture.size(), None)
        if stop is not None:
            return Stopped(stop.reason, stop.cause, *self._capture.take())
        if code < 0:
            return Crashed(f"the program {death_of(code)}", None, *self._capture.take())
        verdict = self._verdict(code)
        status, reason = verdict.status, verdict.reason
        try:
            self._capture.append(verdict.stdout, verdict.stderr)
        except OSError as error:
            status, reason = 2, f"{reason or 'it ended'}; its output could not be kept: {error.strerror}"
        stdout, stderr = self._capture.take()
        return Finished(status, verdict.result, stdout, stderr, code, reason)

    def _verdict(self, code: int) -> Verdict:
        response = self._files / "response.json"
        if not response.is_file():
            return read_response(code, None)
        if (size := response.stat().st_size) > self._job.limits.output_mb * MB:
            return failed(f"the program's response has {size // MB} MB, more than its queue allows")
        try:
            return read_response(code, response.read_bytes())
        except OSError as error:
            return failed(f"the program's response cannot be read: {error.strerror}")

    def _follow(self, job: Job) -> None:
        super()._follow(job)
        self._hear_progress()

    def _hear_progress(self) -> None:
        """Tell the last whole line; lines that say nothing are passed over."""
        *whole, self._lines = (self._lines + read_some(self._progress))[-_LINES:].split(b"\n")
        for line in reversed(whole):
            try:
                told = msgspec.json.decode(line, type=Told)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue
            self._host.listener.progressed(self._job, told.percent, told.info)
            return

    def _environment(self) -> dict[str, str]:
        return {
            "TIDEMILL_TASK": str(self._files / "task.json"),
            "TIDEMILL_RESPONSE": str(self._files / "response.json"),
            "TIDEMILL_TASK_ID": clean(self._job.id),
            "TIDEMILL_ATTEMPT": str(self._job.attempt),
            "TIDEMILL_FENCE": str(self._job.fence),
        }

    def _close(self) -> None:
        os.close(self._progress)
        shutil.rmtree(self._files, ignore_errors=True)


def read_some(progress: int) -> bytes:
    """What is there, or the last of it: a node does not wait for one who writes without end."""
    content = b""
    try:
        for _ in range(_READS):
            chunk = os.read(progress, _LINES)
            if not chunk:
                break
            content = (content + chunk)[-_LINES:]
    except BlockingIOError:
        pass
    return content


def _task(job: Job) -> bytes:
    """The task as a program sees it."""
    names = ("id", "attempt", "fence", "queue", "plugin", "params")
    return msgspec.json.encode({name: getattr(job, name) for name in names})
