"""A warm runner as the pool has it: the jobs that it was handed, its sockets, and what it answers."""

import signal
import socket
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidemill.base.log import get_logger
from tidemill.tasks.runner.attended import Attended, Host
from tidemill.tasks.runner.capture import Capture
from tidemill.tasks.runner.job import Crashed, Ending, Finished, Job, Output, Stopped, Untouched
from tidemill.tasks.runner.overstep import Stop, overstepped
from tidemill.tasks.runner.processes import death_of
from tidemill.tasks.runner.wire import BATON, Answer, Fork, Frames, Order, Said, frame, read_answer

log = get_logger("tidemill.runner")

_CHUNK = 256 * 1024
_SLOW_S = 0.05


class Took(NamedTuple):
    """How long a job of a queue took."""

    queue: str
    seconds: float


class Warm(Attended):
    """The first of its jobs is running, or about to; the others can be taken back.

    `answered` is called after each reading of answers. Raises OSError when no runner can be asked for.
    """

    def __init__(self, host: Host, folder: Path, answered: Callable[["Warm", list[Took]], None]) -> None:
        ticket = host.starting.ticket()
        super().__init__(host, ticket, Capture(folder, f"runner-{ticket}"))
        self.orders: deque[Order] = deque()
        self._answered = answered
        self._numbers = 0
        self._frames = Frames()
        self._outgoing = bytearray()
        self._full = False
        self._new = bytearray()
        self._dead = False
        self._last: Answer | None = None
        self._garbled: str | None = None
        self._socket, theirs = socket.socketpair()
        # We keep both ends of the batons, since taking one back is reading it before the runner does.
        self._give_baton, self._take_baton = socket.socketpair()
        self._socket.setblocking(False)
        fds = (theirs.fileno(), self._take_baton.fileno(), *self._capture.fds)
        try:
            with theirs:
                host.starting.begin(self, Fork(ticket), fds)
        except OSError:
            self._close()
            self._capture.discard()
            raise
        self._loop.add_reader(self._socket.fileno(), self._read)

    @property
    def job(self) -> Job | None:
        return self.orders[0].job if self.orders else None

    @property
    def open(self) -> bool:
        """Whether it can be handed more."""
        return not (self._dead or self._last or self.stop_reason or self._garbled)

    def add(self, job: Job, target: str | None) -> None:
        """Hand it a job, to be sent by `send`. Raises TypeError or ValueError for what cannot be sent."""
        self._numbers += 1
        order = Order(self._numbers, job, target)
        self._outgoing += frame(order)
        self._new += BATON.pack(order.number)
        self.orders.append(order)
        if len(self.orders) == 1:
            self._begin(job)

    def send(self) -> None:
        """Send what was added. What the socket does not take now follows when it does."""
        self._write()
        if self._new:
            self._give_baton.sendall(self._new)  # they are few, and both ends are ours
            self._new.clear()

    def settle(self) -> list[Job]:
        """Have back what it has not begun, and hear what it has answered: one job at most is left to it.

        An answer is sent before the next baton is taken, so whatever it began before the last has been heard.
        """
        untouched = self._recall()
        self._read()
        return untouched

    def _recall(self) -> list[Job]:
        taken = len(self._new)
        self._new.clear()
        try:
            taken += len(self._take_baton.recv(_CHUNK, socket.MSG_DONTWAIT))
        except OSError:
            pass  # none is left
        return [self.orders.pop().job for _ in range(taken // BATON.size)][::-1]

    def is_slow(self, now: float) -> bool:
        """Whether its job takes longer than others should wait behind it."""
        return now - self._since > _SLOW_S

    def refused(self, reason: str) -> None:
        jobs = [order.job for order in self.orders]
        self.orders.clear()
        self._close()
        self._capture.discard()
        for job in jobs[:1]:
            self._host.end(job, Untouched(f"no runner could be started: {reason}", trouble=True))
        self._host.gone(self, jobs[1:])

    def ended(self, code: int) -> None:
        self._dead = True
        untouched = self.settle()
        begun = [order.job for order in self.orders]
        self.orders.clear()
        self._close()
        if begun:
            self._host.end(begun[0], self._ending(begun[0], code, *self._capture.take()))
        else:
            self._capture.discard()
        for job in begun[1:]:  # only after an answer that was none is it unknown which it was at
            self._host.end(job, Crashed(self._garbled or f"its runner {death_of(code)}"))
        self._host.gone(self, untouched)

    def _ending(self, job: Job, code: int, stdout: Output, stderr: Output) -> Ending:
        stop = self.stop_reason or overstepped(job.limits, 0, stdout.size + stderr.size, None)
        if stop is not None:
            return Stopped(stop.reason, stop.cause, stdout, stderr)
        if self._last is not None:
            return Finished(self._last.status, self._last.result, stdout, stderr, None, self._last.reason)
        reason = self._garbled or f"its runner {death_of(code)}"
        return Crashed(reason, code if code >= 0 else None, stdout, stderr)

    def _read(self) -> None:
        """Hear all that it has said. Nothing, once it is closed."""
        answers: list[Took] = []
        while self._socket.fileno() >= 0:
            try:
                data = self._socket.recv(_CHUNK)
            except OSError:
                break
            if not data:
                self._loop.remove_reader(self._socket.fileno())
                break
            for body in self._frames.feed(data):
                self._hear(body, answers)
            if len(data) < _CHUNK:
                break
        if answers:
            self._answered(self, answers)

    def _hear(self, body: bytearray, answers: list[Took]) -> None:
        try:
            message = read_answer(body)
        except msgspec.DecodeError as error:
            self._distrust(f"its runner gave an answer that is none: {error}")
            return
        if self._last or self.stop_reason or self._garbled:
            return  # it is being stopped, and what it says now changes nothing
        if not self.orders or message.number != self.orders[0].number:
            return
        job = self.orders[0].job
        if isinstance(message, Said):
            self._host.listener.progressed(job, message.percent, message.info)
        elif message.leaving is not None:
            log.info("runner.leaves", pid=self.pid, reason=message.leaving)
            self._last = message
        else:
            self.orders.popleft()
            answers.append(Took(job.queue, message.seconds))
            stdout, stderr = message.stdout or b"", message.stderr or b""
            outputs = Output(len(stdout), stdout), Output(len(stderr), stderr)
            self._host.end(job, Finished(message.status, message.result, *outputs, None, message.reason))
            if self.orders:
                self._begin(self.orders[0].job)

    def _limit(self, job: Job, why: Stop) -> None:
        self._host.relieve(self)
        if self.job is job:
            super()._limit(job, why)

    def _follow(self, job: Job) -> None:
        """Tell what the job wrote, if what was read is certain to be its own.

        It is when its baton was taken before, which comes after the file was cleared, and it has not been
        answered after, which comes before the file is cleared again.
        """
        if not self._has_begun():
            return
        found = self._capture.tail()
        self._read()
        if self.job is job and self._last is None:
            for stream, offset, content in found:
                self._host.listener.wrote(job, stream, offset, content)

    def _has_begun(self) -> bool:
        try:
            baton = self._take_baton.recv(BATON.size, socket.MSG_DONTWAIT | socket.MSG_PEEK)
        except OSError:
            return True
        return bool(BATON.unpack(baton)[0] != self.orders[0].number)

    def _distrust(self, reason: str) -> None:
        self._garbled = self._garbled or reason
        self._host.starting.signal(self._ticket, signal.SIGKILL)

    def _write(self) -> None:
        if not self._outgoing:
            return
        try:
            del self._outgoing[: self._socket.send(self._outgoing)]
        except BlockingIOError:
            pass
        except OSError:
            self._outgoing.clear()  # it is dead, as its end will tell
        if bool(self._outgoing) != self._full:
            self._full = not self._full
            if self._full:
                self._loop.add_writer(self._socket.fileno(), self._write)
            else:
                self._loop.remove_writer(self._socket.fileno())

    def _close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
        for one in (self._socket, self._give_baton, self._take_baton):
            one.close()
