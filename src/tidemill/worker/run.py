"""A handler that runs a program for each job.

The program's words may have `{payload}` and `{result}` in them, which become paths of files: one to read,
one to write. Without the first it reads the payload from standard input, without the second its standard
output is the result. It runs in the job's folder and in a process group of its own, of which nothing is left
when the job ends.

What it prints for people is on standard error, or on standard output when that is not the result. Of these
lines

    progress: 40
    progress: 40 reticulating splines
    progress: reticulating splines

are reports of progress; the others are the logs of a job that fails.
"""

import asyncio
import os
import re
import shlex
import shutil
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tidemill.worker.errors import BadProgram, JobFailed
from tidemill.worker.job import LOGS, Handler, Job

TOKEN_VARIABLE = "TIDEMILL_TOKEN"
"""Where the command line finds the worker's token. It is none of the program's business."""

_PAYLOAD = "{payload}"
_RESULT = "{result}"
_PROGRESS = re.compile(r"progress:\s*(?:(?P<percent>\d+(?:\.\d+)?)\s*%?(?:\s+|$))?(?P<info>.*)")
_READ_BYTES = 64 * 1024


def program(command: str, *, timeout_s: float | None = None, grace_s: float = 5.0) -> Handler:
    """A handler that runs the command, without a shell. Raises `BadProgram` if there is no such program.

    A job fails when its program does not exit with 0, or runs longer than `timeout_s`. A program that is to
    end has `grace_s` from SIGTERM to SIGKILL.
    """
    words = _words(command)

    async def run(job: Job) -> Path:
        return await _run(words, job, timeout_s, grace_s)

    return run


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadProgram(f"{command!r}: {error}") from error
    found = shutil.which(words[0]) if words else None
    if found is None:
        raise BadProgram(f"there is no program {words[0] if words else command!r}")
    # A path that leads there from this folder does not from the job's.
    return [str(Path(found).absolute()), *words[1:]]


async def _run(words: list[str], job: Job, timeout_s: float | None, grace_s: float) -> Path:
    prints = _Prints(job)
    with _pipe(prints.take) as pipe:
        process = await _start(words, job, pipe)
        try:
            async with asyncio.timeout(timeout_s):
                code = await process.wait()
        except TimeoutError:
            await _end(process, grace_s)
            raise JobFailed(f"took longer than {timeout_s:g} s", prints.tail()) from None
        except asyncio.CancelledError:
            await _end(process, grace_s)
            raise
        finally:
            _signal(process, signal.SIGKILL)
    if code != 0:
        raise JobFailed(_ending(code), prints.tail())
    result = _result_of(job)
    if not result.exists():
        raise JobFailed("the program wrote no result", prints.tail())
    return result


async def _start(words: list[str], job: Job, pipe: int) -> Process:
    paths = {_PAYLOAD: str(job.path), _RESULT: str(_result_of(job))}
    arguments = [_filled(word, paths) for word in words]
    with ExitStack() as files:
        try:
            streams: dict[str, Any] = {"stdin": DEVNULL, "stdout": pipe, "stderr": pipe}
            if not any(_PAYLOAD in word for word in words):
                streams["stdin"] = files.enter_context(job.path.open("rb"))
            if not any(_RESULT in word for word in words):
                streams["stdout"] = files.enter_context(_result_of(job).open("wb"))
            return await asyncio.create_subprocess_exec(
                *arguments, **streams, cwd=job.folder, env=_environment(job), start_new_session=True
            )
        except OSError as error:
            raise JobFailed(f"the program cannot be started: {error}") from error


def _filled(word: str, paths: dict[str, str]) -> str:
    for placeholder, path in paths.items():
        word = word.replace(placeholder, path)
    return word


def _result_of(job: Job) -> Path:
    return job.folder / "result"


def _environment(job: Job) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    return own | {
        "TIDEMILL_TASK": job.id,
        "TIDEMILL_FENCE": str(job.fence),
        "TIDEMILL_ATTEMPT": str(job.attempt),
        "TIDEMILL_QUEUE": job.queue,
    }


def _ending(code: int) -> str:
    if code > 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


async def _end(process: Process, grace_s: float) -> None:
    """Ask all of the group to end, then end it. Who cannot wait cancels this: then it is ended at once."""
    try:
        _signal(process, signal.SIGTERM)
        async with asyncio.timeout(grace_s):
            await process.wait()
    except TimeoutError:
        pass
    finally:
        _signal(process, signal.SIGKILL)
        await process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


@contextmanager
def _pipe(take: Callable[[bytes], None]) -> Iterator[int]:
    """The end of a pipe to write to; `take` is given what comes out of the other.

    Not a pipe of asyncio's: with one of those a process counts as running until all that inherited it are
    gone.
    """
    loop = asyncio.get_running_loop()
    out, into = os.pipe()
    os.set_blocking(out, False)

    def read() -> bool:
        try:
            content = os.read(out, _READ_BYTES)
        except BlockingIOError:
            return False
        if content:
            take(content)
        else:
            loop.remove_reader(out)
        return bool(content)

    loop.add_reader(out, read)
    try:
        yield into
    finally:
        os.close(into)
        while read():
            pass
        loop.remove_reader(out)
        os.close(out)


class _Prints:
    """What a program prints for people: lines of progress, and the end of all others."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._line = b""
        self._logs = bytearray()

    def take(self, content: bytes) -> None:
        *lines, rest = (self._line + content).split(b"\n")
        for line in lines:
            if not self._is_progress(line):
                self._logs += line + b"\n"
        self._line = rest[-LOGS:]
        del self._logs[:-LOGS]

    def tail(self) -> str:
        return (self._logs + self._line).decode(errors="replace")[-LOGS:]

    def _is_progress(self, line: bytes) -> bool:
        match = _PROGRESS.fullmatch(line.decode(errors="replace").strip())
        if match is None:
            return False
        percent = float(match["percent"]) if match["percent"] is not None else None
        try:
            self._job.progress(percent, match["info"].strip() or None)
        except ValueError:
            return False
        return True
