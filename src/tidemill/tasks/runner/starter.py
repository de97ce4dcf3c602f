"""The process that starts the children of a pool, and sees to it that nothing of them is left.

It is single and small, so that a fork costs milliseconds, and it has one thread, so that forking is safe.
Whatever a child leaves behind becomes a child of this process, which knows only those that it started: all
others are killed when a child dies. When the pool dies, or only closes the socket, everything is.

Run as `python -m tidemill.tasks.runner.starter SETUP`.
"""

import gc
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import msgspec

from tidemill.tasks.runner import child
from tidemill.tasks.runner.processes import adopt_orphans, children_of, die_with_parent, kill_group
from tidemill.tasks.runner.wire import (
    Began,
    Ended,
    Fork,
    Launch,
    Refused,
    Setup,
    Signal,
    frame,
    receive_request,
)

_HEARD = (signal.SIGCHLD, signal.SIGTERM)
"""Signals that end nothing here: this process ends when the pool does. A handler, unlike SIG_IGN, is not
inherited by programs."""


class Starter:
    """The children by ticket and by process id."""

    def __init__(self, pool: socket.socket, setup: Setup) -> None:
        self._pool = pool
        self._setup = setup
        self._pids: dict[int, int] = {}
        self._tickets: dict[int, int] = {}
        self._pid = os.getpid()
        # A signal that comes between two looks must not be missed: it writes a byte that wakes the poll.
        self._deaths, wake = socket.socketpair()
        for end in (self._deaths, wake):
            end.setblocking(False)
        self._wake = wake
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        for number in _HEARD:
            signal.signal(number, lambda *_: None)

    def serve(self) -> None:
        """Do what the pool asks for until it is gone."""
        poll = select.poll()
        poll.register(self._pool, select.POLLIN)
        poll.register(self._deaths, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self._deaths.fileno() in ready:
                with suppress(BlockingIOError):
                    self._deaths.recv(4096)
                self._bury()
            if self._pool.fileno() in ready and not self._obey():
                return

    def end_all(self) -> None:
        """Kill all children and whatever they left, until there is nobody."""
        while True:
            for pid in children_of(self._pid):
                kill_group(pid, signal.SIGKILL)
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return

    def _obey(self) -> bool:
        received = receive_request(self._pool)
        if received is None:
            return False
        request, fds = received
        match request:
            case Signal(ticket, number):
                if ticket in self._pids:
                    kill_group(self._pids[ticket], number)
            case Fork(ticket) | Launch(ticket):
                try:
                    pid = self._fork(fds) if isinstance(request, Fork) else self._launch(request, fds)
                    self._pids[ticket], self._tickets[pid] = pid, ticket
                    self._pool.sendall(frame(Began(ticket, pid)))
                except (OSError, ValueError, subprocess.SubprocessError) as error:
                    self._pool.sendall(frame(Refused(ticket, _words(error))))
                finally:
                    for fd in fds:
                        os.close(fd)
        return True

    def _fork(self, fds: list[int]) -> int:
        pid = os.fork()
        if pid == 0:
            self._become_runner(fds)
        return pid

    def _become_runner(self, fds: list[int]) -> NoReturn:
        try:
            os.setsid()
            die_with_parent(self._pid)
            adopt_orphans()
            signal.set_wakeup_fd(-1)
            for number in _HEARD:
                signal.signal(number, signal.SIG_DFL)
            for own in (self._pool, self._deaths, self._wake):
                own.close()
            child.serve(fds, self._setup.caller, self._setup.recycle)
        finally:
            os._exit(1)

    def _launch(self, request: Launch, fds: list[int]) -> int:
        stdin, stdout, stderr, progress = fds
        process = subprocess.Popen(
            request.command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=(progress,),
            env={**os.environ, **request.environment, "TIDEMILL_PROGRESS": str(progress)},
            start_new_session=True,
            preexec_fn=self._prepare_program,  # noqa: PLW1509 - there is one thread only
        )
        process.returncode = 0  # it is buried here, by its number
        return process.pid

    def _prepare_program(self) -> None:
        die_with_parent(self._pid)
        adopt_orphans()

    def _bury(self) -> None:
        """Tell of the children that died, after killing what they left."""
        dead: list[tuple[int, int]] = []
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0] != 0:
                dead.append(found)
        for pid, _ in dead:
            if pid in self._tickets:
                # The number of a group stays taken while it has members.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
        for stray in set(children_of(self._pid)) - self._tickets.keys():
            kill_group(stray, signal.SIGKILL)
        for pid, status in dead:
            ticket = self._tickets.pop(pid, None)
            if ticket is not None:
                del self._pids[ticket]
                self._pool.sendall(frame(Ended(ticket, os.waitstatus_to_exitcode(status))))


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}"


def main() -> None:
    setup = msgspec.json.decode(sys.argv[1], type=Setup)
    sys.path[:] = setup.path
    adopt_orphans()
    with suppress(Exception):
        import_module(setup.caller.partition(":")[0])  # each runner would load it; it reports what is wrong
    gc.freeze()
    starter = Starter(socket.socket(fileno=setup.fd), setup)
    try:
        starter.serve()
    except (BrokenPipeError, ConnectionError):
        pass  # the pool is gone
    finally:
        starter.end_all()


if __name__ == "__main__":
    main()
