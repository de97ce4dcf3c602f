"""A warm runner: the process that runs jobs of functions and of plugins in Python, one after another.

It was forked by the starter. It has no store, no lease and no secret: only the sockets on which orders and
batons come, and the two files that are its standard output and error. An answer is sent before those files
are cleared, and they are cleared before the next baton is taken: so whoever sees that a job has begun, and
has not been answered, sees its output and no one else's.
"""

import io
import math
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from contextlib import suppress
from typing import TextIO

import psutil

from tidemill.tasks.runner import current
from tidemill.tasks.runner.answer import Verdict, clean, failed
from tidemill.tasks.runner.job import MB, SMALL, Recycle
from tidemill.tasks.runner.plugins import load, run_plugin
from tidemill.tasks.runner.wire import BATON, Answer, Frames, Order, Said, frame, read_order
from tidemill.tasks.status import FAILED

_CHUNK = 256 * 1024
_WEIGH_S = 0.25
_REASON_CHARACTERS = 500
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGCHLD)
"""Those whose handlers the next job would suffer from. To look at all takes longer than many a job."""


def serve(fds: list[int], caller: str, recycle: Recycle) -> None:
    """Run what comes on the sockets until they close, or until it is time for a fresh runner."""
    for fd in fds:
        os.set_inheritable(fd, False)  # what comes through a socket is inherited otherwise
    orders, batons, stdout, stderr = fds
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    sys.stdout, sys.stderr = _text(1), _text(2)
    runner = Runner(socket.socket(fileno=orders), socket.socket(fileno=batons), (stdout, stderr), caller)
    runner.serve(Wear(recycle))


def _text(fd: int) -> TextIO:
    """Buffered to the end of the line, so that what is printed can be followed."""
    binary = io.BufferedWriter(io.FileIO(fd, "w", closefd=False))
    return io.TextIOWrapper(binary, encoding="utf-8", errors="backslashreplace", line_buffering=True)


class Surroundings:
    """What a job finds around it and may change: put back as it was, so that the next one finds it too."""

    def __init__(self) -> None:
        # What it keeps inside: to ask its public face for every entry takes longer than many a job.
        self._entries: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]
        self._environment = dict(self._entries)
        self._cwd = os.getcwd()  # noqa: PTH109 - quicker, and asked after every job
        self._umask = os.umask(0)
        os.umask(self._umask)

    def restore(self) -> None:
        """To be called after each job. Raises OSError when there is no way back."""
        os.umask(self._umask)
        if self._entries != self._environment:
            os.environb.clear()
            os.environb.update(self._environment)
        if _cwd() != self._cwd:
            os.chdir(self._cwd)


def _cwd() -> str | None:
    """Where this process is; None when that has been removed."""
    try:
        return os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        return None


class Wear:
    """Why this process should run no other job, after what it has run. What can be put back, it puts back."""

    def __init__(self, recycle: Recycle) -> None:
        self._recycle = recycle
        self._process = psutil.Process()
        self._tasks = 0
        self._threads = threading.active_count()
        self._surroundings = Surroundings()
        self._streams = (sys.stdout, sys.stderr)
        self._files = (os.fstat(1).st_ino, os.fstat(2).st_ino)
        self._handlers = [signal.getsignal(number) for number in _SIGNALS]
        self._weighed = -math.inf

    def reason(self) -> str | None:
        """None when it is as good as new. To be called once after each job."""
        self._tasks += 1
        if self._tasks >= self._recycle.tasks:
            return f"it has run {self._tasks} tasks"
        if threading.active_count() > self._threads:
            return "a task left threads behind"
        if _has_children():
            return "a task left processes behind"
        try:
            self._surroundings.restore()
            if (os.fstat(1).st_ino, os.fstat(2).st_ino) != self._files:
                return "a task changed the standard output"
        except OSError as error:
            return f"a task left it in disorder: {error}"
        if (sys.stdout, sys.stderr) != self._streams:
            return "a task changed the standard output"
        if [signal.getsignal(number) for number in _SIGNALS] != self._handlers:
            return "a task changed what a signal does"
        if signal.getitimer(signal.ITIMER_REAL) != (0.0, 0.0):
            return "a task left an alarm behind"
        return self._too_large()

    def _too_large(self) -> str | None:
        now = time.monotonic()
        if now - self._weighed < _WEIGH_S:
            return None
        self._weighed = now
        size_mb = self._process.memory_info().rss // MB
        return f"it has grown to {size_mb} MB" if size_mb > self._recycle.memory_mb else None


def _has_children() -> bool:
    """Whether any child lives. Those that are dead are buried."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        return False
    return True


class Runner:
    """Takes a baton, finds its order, runs the job, answers."""

    def __init__(
        self, orders: socket.socket, batons: socket.socket, files: tuple[int, int], caller: str
    ) -> None:
        self._socket = orders
        self._batons = batons
        self._files = files
        self._caller = caller
        self._frames = Frames()
        self._orders: deque[Order] = deque()
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._stdout, self._stderr = sys.stdout, sys.stderr

    def serve(self, wear: Wear) -> None:
        while baton := self._batons.recv(BATON.size):
            order = self._order(*BATON.unpack(baton))
            if order is None:
                return
            began = time.perf_counter()
            verdict = self._run(order)
            if os.getpid() != self._pid:
                os._exit(0)  # the job forked, and this is the copy, which has come too far
            answer = self._answer(order, verdict, time.perf_counter() - began, wear.reason())
            self._send(answer)
            if answer.leaving is not None:
                return
            if answer.stdout or answer.stderr:
                for file in self._files:
                    os.ftruncate(file, 0)

    def _order(self, number: int) -> Order | None:
        """The order of that number. Those before it were taken back. None when the pool is gone."""
        while True:
            while self._orders:
                order = self._orders.popleft()
                if order.number == number:
                    return order
            data = self._socket.recv(_CHUNK)
            if not data:
                return None
            self._orders.extend(map(read_order, self._frames.feed(data)))

    def _run(self, order: Order) -> Verdict:
        running = current.running = current.Running(order.number, order.job, self._send)
        try:
            if order.job.kind == "function":
                status, result = load(self._caller)(order.job.payload)
                return Verdict(status, result=result)
            return run_plugin(order.target or "", order.job)
        except BaseException as error:  # SystemExit too: a task ends itself, not its runner
            lines = traceback.format_exception(error)
            return failed(lines[-1].strip()[:_REASON_CHARACTERS], "".join(lines))
        finally:
            current.running = None
            running.end()

    def _answer(self, order: Order, verdict: Verdict, seconds: float, leaving: str | None) -> Answer:
        """The answer, with what was written; large outputs stay in their files, and this runner leaves."""
        status, reason = verdict.status, verdict.reason
        try:
            self._stdout.flush()
            self._stderr.flush()
            for file, text in zip(self._files, (verdict.stdout, verdict.stderr), strict=True):
                _write(file, text)
        except (OSError, ValueError) as error:
            # The disk is full, or the job closed its streams. What is still in a buffer would come out later.
            status = FAILED
            reason = clean(f"{reason or 'it ended'}; its output could not be kept: {error}")
            leaving = leaving or "output could not be written"
        stdout, stderr = (_small(file) for file in self._files)
        if stdout is None or stderr is None:
            leaving = leaving or "a task wrote much"
        return Answer(order.number, seconds, status, verdict.result, reason, stdout, stderr, leaving)

    def _send(self, message: Answer | Said) -> None:
        content = frame(message)
        with (
            self._lock,
            suppress(BrokenPipeError, ConnectionError),
        ):  # the next baton tells that the pool is gone
            self._socket.sendall(content)


def _write(file: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(file, view) :]


def _small(file: int) -> bytes | None:
    """What the file holds, unless that is much."""
    size = os.fstat(file).st_size
    if size == 0:
        return b""
    return os.pread(file, size, 0) if size <= SMALL else None
