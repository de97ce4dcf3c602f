"""What the pool, the starter and the runners say to each other: msgpack in frames, each led by its length.

    pool ──Fork, Launch, Signal──► starter        pool ──Order, batons──────► runner
    pool ◄──Began, Refused, Ended── starter       pool ◄──Said, Answer─────── runner

A *baton* is the right to begin one job. It lies in a socket of its own, from which the runner takes it to
begin, and the pool to have the job back: it goes to one of them only, whatever the timing.
"""

import socket
import struct
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from tidemill.tasks.runner.job import Job, Recycle

_LENGTH = struct.Struct("<I")
BATON = struct.Struct("<I")
FDS = 4
"""How many descriptors come with each Fork and Launch."""


class Setup(Struct, frozen=True):
    """What the starter is told when it begins, on its command line."""

    fd: int
    path: list[str]
    caller: str
    recycle: Recycle


class Fork(Struct, frozen=True, tag=True):
    """Start a warm runner. Comes with descriptors: orders, batons, stdout, stderr."""

    ticket: int


class Launch(Struct, frozen=True, tag=True):
    """Start a program. Comes with descriptors: stdin, stdout, stderr, progress."""

    ticket: int
    command: list[str]
    environment: dict[str, str]


class Signal(Struct, frozen=True, tag=True):
    """Send a signal to a child and its whole process group."""

    ticket: int
    number: int


class Began(Struct, frozen=True, tag=True):
    ticket: int
    pid: int


class Refused(Struct, frozen=True, tag=True):
    """The child could not be started."""

    ticket: int
    reason: str


class Ended(Struct, frozen=True, tag=True):
    """The child is dead, and what it started is killed. `code` is its exit code, or minus a signal."""

    ticket: int
    code: int


class Order(Struct, frozen=True, array_like=True):
    """A job for a warm runner. `target` is where its plugin is found: `package.module:object`."""

    number: int
    job: Job
    target: str | None


class Answer(Struct, frozen=True, array_like=True, tag=0):
    """What came of an order. A runner that is `leaving` says why, and begins nothing more.

    Outputs are left out (None) when they are large: their files tell.
    """

    number: int
    seconds: float
    status: int
    result: bytes | None = None
    reason: str | None = None
    stdout: bytes | None = b""
    stderr: bytes | None = b""
    leaving: str | None = None


class Said(Struct, frozen=True, array_like=True, tag=1):
    """How far the job is."""

    number: int
    percent: float | None
    info: str | None


_encode = msgspec.msgpack.Encoder().encode
read_request = msgspec.msgpack.Decoder(Fork | Launch | Signal).decode
read_report = msgspec.msgpack.Decoder(Began | Refused | Ended).decode
read_order = msgspec.msgpack.Decoder(Order).decode
read_answer = msgspec.msgpack.Decoder(Answer | Said).decode


def frame(message: Struct) -> bytes:
    """The message as it is sent. Raises TypeError or ValueError for values that msgpack has not."""
    try:
        body = _encode(message)
    except OverflowError as error:
        raise ValueError(str(error)) from error
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Cuts what comes in into frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytearray]:
        """The frames that are complete now."""
        self._rest += data
        found: list[bytearray] = []
        at, end = 0, len(self._rest)
        while end - at >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._rest, at)
            if end - at - _LENGTH.size < size:
                break
            at += _LENGTH.size
            found.append(self._rest[at : at + size])
            at += size
        del self._rest[:at]
        return found


def send_request(sock: socket.socket, request: Fork | Launch | Signal, fds: Sequence[int] = ()) -> None:
    """Raises OSError when the starter is gone, or takes nothing any more."""
    content = frame(request)
    if socket.send_fds(sock, [content], list(fds)) != len(content):
        raise BlockingIOError("the starter takes nothing any more")


def receive_request(sock: socket.socket) -> tuple[Fork | Launch | Signal, list[int]] | None:
    """The next request, once it is there; None when the pool is gone.

    Exactly the bytes of one request are read, since descriptors come with the first of them.
    """
    head, fds, _, _ = socket.recv_fds(sock, _LENGTH.size, FDS)
    if len(head) < _LENGTH.size:
        return None
    (size,) = _LENGTH.unpack(head)
    body = bytearray()
    while len(body) < size:
        more = sock.recv(size - len(body))
        if not more:
            return None
        body += more
    return read_request(body), fds
