"""The starter as the pool has it: started, asked for children, heard about their ends."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Protocol

import msgspec

from tidemill.base.log import get_logger
from tidemill.tasks.runner.job import Recycle
from tidemill.tasks.runner.processes import kill_group
from tidemill.tasks.runner.wire import (
    Began,
    Ended,
    Fork,
    Frames,
    Launch,
    Refused,
    Setup,
    Signal,
    read_report,
    send_request,
)

log = get_logger("tidemill.runner")

MODULE = "tidemill.tasks.runner.starter"
_PATIENCE_S = 10.0
_SECRET = "TIDEMILL_"


class Started(Protocol):
    """A child, told of its fate: either refused, or begun and then ended. `code` as in `wire.Ended`."""

    pid: int | None

    def began(self, pid: int) -> None: ...

    def refused(self, reason: str) -> None: ...

    def ended(self, code: int) -> None: ...

    def given_up(self, reason: str) -> None: ...


class Starting:
    """Starts children through a process of its own, which is started again if it should die.

    A child whose starter died has ended, like one that was killed.
    """

    def __init__(self, caller: str, recycle: Recycle) -> None:
        self._caller = caller
        self._recycle = recycle
        self._children: dict[int, Started] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._frames = Frames()
        self._tickets = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> socket.socket:
        """Have a starter. Raises OSError when there can be none. A second call changes nothing."""
        if self._socket is not None:
            return self._socket
        ours, theirs = socket.socketpair()
        setup = Setup(theirs.fileno(), [*sys.path], self._caller, self._recycle)
        # Tasks are other people's code: what this node was told by its environment is not for them.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_SECRET)}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, msgspec.json.encode(setup).decode()],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=environment,
                start_new_session=True,
            )
        ours.setblocking(False)
        self._socket, self._frames = ours, Frames()
        asyncio.get_running_loop().add_reader(ours.fileno(), self._read)
        return ours

    def ticket(self) -> int:
        """A number for a child, never used before."""
        self._tickets += 1
        return self._tickets

    def begin(self, child: Started, request: Fork | Launch, fds: Sequence[int]) -> None:
        """Have the child started; it is told later what becomes of it, unless this raises OSError."""
        try:
            send_request(self.start(), request, fds)
        except OSError:
            self._lost()
            send_request(self.start(), request, fds)
        self._children[request.ticket] = child

    def signal(self, ticket: int, number: int) -> None:
        """Signal the child's process group, if it lives."""
        if self._socket is not None:
            try:
                send_request(self._socket, Signal(ticket, number))
            except OSError:
                self._lost()

    async def stop(self) -> None:
        """Kill every child and all that they started; nothing is left once this returns."""
        process = self._let_go()
        if process is not None:
            try:
                await asyncio.to_thread(process.wait, _PATIENCE_S)
            except subprocess.TimeoutExpired:
                await asyncio.to_thread(_kill, process)
        self._end_children()

    def _read(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        for body in self._frames.feed(data):
            self._hear(read_report(body))
        if not data:
            self._lost()

    def _hear(self, report: Began | Refused | Ended) -> None:
        match report:
            case Began(ticket, pid) if ticket in self._children:
                self._children[ticket].began(pid)
            case Refused(ticket, reason) if ticket in self._children:
                self._children.pop(ticket).refused(reason)
            case Ended(ticket, code) if ticket in self._children:
                _bury(self._children.pop(ticket), code)

    def _lost(self) -> None:
        """The starter died, or does nothing any more; its children die with it."""
        process = self._let_go()
        if process is not None:
            log.warning("starter.died", pid=process.pid)
            _kill(process)
        self._end_children()

    def _let_go(self) -> subprocess.Popen[bytes] | None:
        """Close the socket. A starter that sees that ends, with all that it has."""
        sock, self._socket, process, self._process = self._socket, None, self._process, None
        if sock is not None:
            asyncio.get_running_loop().remove_reader(sock.fileno())
            sock.close()
        return process

    def _end_children(self) -> None:
        children, self._children = self._children, {}
        for child in children.values():
            if child.pid is not None:
                kill_group(child.pid, signal.SIGKILL)
            _bury(child, -signal.SIGKILL)


def _bury(child: Started, code: int) -> None:
    """Tell a child of its end. Whatever goes wrong with what it left, its job ends."""
    try:
        child.ended(code)
    except Exception as error:
        log.exception("runner.end_failed", error=f"{type(error).__name__}: {error}")
        child.given_up(f"what came of it cannot be read: {type(error).__name__}: {error}")


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
