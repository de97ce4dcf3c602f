"""What workers and nodes say to each other over a WebSocket. Pure: bytes and text to messages and back.

Every connection speaks the plain protocol, unless the worker offers the subprotocol `SUBPROTOCOL`. In the
plain one text is a JSON object with one of the codes 0 to 4, a binary message from the node is the payload of
a job, and one from the worker is the result of the last job it was sent.

    plain       worker                            node
                0 registered ────────────────►
                ◄──────────────────────────── 2 what is your status?
                1 ready ─────────────────────►
                ◄──────────────────────────── (binary) payload
                3 progress ──────────────────►
                (binary) result, or 4 failed ►
                ◄──────────────────────────── 2 what is your status?

`SUBPROTOCOL` adds the codes 5 to 10 and names the task and its fence in every message about one, so that a
worker can have several, and can bring a result after it has lost its connection, to whichever node it finds:

    v1          0 registered (slots, session, tasks it has) ►
                ◄──────────────────────────── 6 welcome (session, tasks it keeps)
                ◄──────────────────────────── 2 what is your status?
                1 ready ─────────────────────►
                ◄──────────────────────────── 7 task (content, or a stream)
                3 progress ──────────────────►
                5 result (content, or a stream), or 4 failed ►
                ◄──────────────────────────── 8 settled: the worker may forget the task
                ◄──────────────────────────── 9 cancelled: nobody wants it any more; nothing need be said

Small content lies in the message as base64. Larger content follows as binary messages, each of which is the
number of its stream (four bytes, big-endian) and a chunk; `size` says when it is whole, and then comes
10 ended, with the SHA-256 of all of it. A stream that breaks off with its connection begins anew on the next.
Readers ignore fields that they do not know.
"""

import base64
import binascii
import math
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

SUBPROTOCOL: Final = "tidemill.worker.v1"

BUSY: Final = 0
READY: Final = 1

INLINE_BYTES: Final = 32 * 1024
"""Content up to this size lies inside its message."""

CHUNK_BYTES: Final = 256 * 1024
"""How much of a stream goes into one binary message."""

_STREAM_BYTES = 4


class BadMessage(ValueError):
    """What arrived is no message of the protocol; the text says why."""


class BadProgress(BadMessage):
    """A report of progress that says nothing, or nothing that can be."""


class TaskRef(Struct, frozen=True):
    """One attempt at a task: its fence tells it from the others."""

    task: str
    fence: int


class Registered(Struct, frozen=True, tag_field="code", tag=0, omit_defaults=True):
    """Who the worker is. All but the first three are of v1.

    `session` is what the last welcome gave, and `tasks` what the worker has not been told to forget.
    """

    name: str
    id: str
    token: str = ""
    slots: int = 1
    session: str | None = None
    tasks: tuple[TaskRef, ...] = ()


class Status(Struct, frozen=True, tag_field="code", tag=1):
    """Whether the worker would take work: `READY` or `BUSY`."""

    status: int


class StatusAsked(Struct, frozen=True, tag_field="code", tag=2):
    """The node wants to know the worker's status."""


class Progress(Struct, frozen=True, tag_field="code", tag=3):
    """How far a task is: `percent` from 0 to 100, words, or both."""

    percent: float | None = None
    info: str | None = None
    task: str | None = None
    fence: int | None = None


class Failed(Struct, frozen=True, tag_field="code", tag=4):
    """The task could not be done."""

    logs: str | None = None
    info: str | None = None
    task: str | None = None
    fence: int | None = None


class Result(Struct, frozen=True, tag_field="code", tag=5, omit_defaults=True):
    """What came of a task: `content` in base64, or a stream of `size` bytes that follows."""

    task: str
    fence: int
    content: str | None = None
    stream: int | None = None
    size: int | None = None


class Welcome(Struct, frozen=True, tag_field="code", tag=6, omit_defaults=True):
    """The worker is enrolled. It goes on with the tasks in `kept`, and drops its unfinished others.

    A task that another node has taken over has a new fence there, which later messages name. Results that it
    has at hand it sends in any case. `message` is the largest message that the node takes.
    """

    session: str
    message: int
    kept: tuple[TaskRef, ...] = ()


class TaskGiven(Struct, frozen=True, tag_field="code", tag=7, omit_defaults=True):
    """Work to do: `content` in base64, or a stream of `size` bytes that follows."""

    task: str
    fence: int
    attempt: int
    queue: str
    key: str | None = None
    description: str | None = None
    params: Any = None
    content: str | None = None
    stream: int | None = None
    size: int | None = None


class Settled(Struct, frozen=True, tag_field="code", tag=8, omit_defaults=True):
    """What became of a result or a failure: it is written down, or not wanted and why."""

    task: str
    fence: int
    accepted: bool
    reason: str | None = None


class Cancelled(Struct, frozen=True, tag_field="code", tag=9):
    """Nobody wants the task done any more, or not by this worker."""

    task: str
    fence: int
    reason: str


class StreamEnded(Struct, frozen=True, tag_field="code", tag=10):
    """All of a stream was sent; `digest` is the SHA-256 of it in hexadecimal."""

    stream: int
    digest: str


FromWorker: TypeAlias = Registered | Status | Progress | Failed | Result | StreamEnded
FromPlainWorker: TypeAlias = Registered | Status | Progress | Failed
FromNode: TypeAlias = StatusAsked | Welcome | TaskGiven | Settled | Cancelled | StreamEnded
Message: TypeAlias = FromWorker | FromNode

_encoder = msgspec.json.Encoder()
_from_worker = msgspec.json.Decoder(FromWorker)
_from_plain_worker = msgspec.json.Decoder(FromPlainWorker)
_from_node = msgspec.json.Decoder(FromNode)


def encoded(message: Message) -> str:
    """The message as text."""
    return _encoder.encode(message).decode()


def from_worker(text: str, *, plain: bool) -> FromWorker:
    """What a worker said. Raises `BadMessage`, and `BadProgress` where only that is wrong."""
    message: FromWorker
    try:
        message = _from_plain_worker.decode(text) if plain else _from_worker.decode(text)
    except msgspec.ValidationError as error:
        raise (BadProgress if _is_progress(text) else BadMessage)(str(error)) from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadMessage(f"not JSON: {error}") from error
    if isinstance(message, Progress):
        _check_progress(message)
    if isinstance(message, Status) and message.status not in (BUSY, READY):
        raise BadMessage(f"status must be {BUSY} (busy) or {READY} (ready), not {message.status}")
    if isinstance(message, Registered):
        _check_registered(message)
    return message


def from_node(text: str) -> FromNode:
    """What a node said. Raises `BadMessage`; a worker passes over it, as a newer node may say more."""
    try:
        message: FromNode = _from_node.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadMessage(str(error)) from error
    return message


def _check_progress(message: Progress) -> None:
    if message.percent is None and message.info is None:
        raise BadProgress("percent and info are both null")
    if message.percent is not None and not (math.isfinite(message.percent) and 0 <= message.percent <= 100):
        raise BadProgress(f"percent must be from 0 to 100, not {message.percent:g}")


def _check_registered(message: Registered) -> None:
    if not 0 < len(message.id) <= 200 or len(message.name) > 200:
        raise BadMessage("id must be 1 to 200 characters, and name at most 200")
    if not 1 <= message.slots <= 1000:
        raise BadMessage(f"slots must be 1 to 1000, not {message.slots}")
    if len(message.session or "") > 200:
        raise BadMessage("session must be what the last welcome gave")
    if any(not 0 < len(ref.task) <= 200 or "\0" in ref.task for ref in message.tasks):
        raise BadMessage("tasks must be those that it was given")


class _Coded(Struct):
    code: int


def _is_progress(text: str) -> bool:
    try:
        return msgspec.json.decode(text, type=_Coded).code == 3
    except msgspec.DecodeError:
        return False


def chunk(stream: int, content: bytes | memoryview) -> bytes:
    """A piece of a stream as a binary message."""
    return stream.to_bytes(_STREAM_BYTES) + content


def from_chunk(message: bytes) -> tuple[int, memoryview]:
    """The number of the stream and the piece. Raises `BadMessage`."""
    if len(message) < _STREAM_BYTES:
        raise BadMessage("a binary message begins with the four bytes of its stream's number")
    return int.from_bytes(message[:_STREAM_BYTES]), memoryview(message)[_STREAM_BYTES:]


def inline(content: bytes) -> str:
    """Small content as it lies in a message."""
    return base64.b64encode(content).decode()


def content_of(text: str) -> bytes:
    """The content again. Raises `BadMessage`."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadMessage(f"content is no base64: {error}") from error
