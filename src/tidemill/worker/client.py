"""A worker's connection to a node, made again whenever it is lost. A thin shell around `session`."""

import asyncio
import hashlib
import itertools
import math
import random
import ssl
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidProxy,
    InvalidStatus,
    InvalidURI,
    NegotiationError,
    WebSocketException,
)
from websockets.typing import Subprotocol

from tidemill.base.log import get_logger
from tidemill.worker import wire
from tidemill.worker.desk import Desk
from tidemill.worker.errors import BadAddress, NotSpoken, Refused
from tidemill.worker.job import Handler
from tidemill.worker.parcel import pieces
from tidemill.worker.session import (
    Connected,
    Deliver,
    Effect,
    Ended,
    Event,
    Failure,
    Forget,
    Heard,
    HeardChunk,
    HeardPayload,
    Line,
    Lost,
    Send,
    Sent,
    Stage,
    State,
    Stopping,
    step,
)

log = get_logger("tidemill.worker")

FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 30.0
STEADY_S: Final = 2.0
"""A connection that was up for so long is no failure when it is lost."""

_OPEN_S = 10.0
_CLOSE_S = 2.0
_MESSAGE_BYTES = 16 * 1024 * 1024  # a task's params lie in a message; chunks are far smaller
_POLICY = 1008
_LATE = "not registered"
_FORBIDDEN, _NOT_FOUND = 403, 404
_UNAUTHORIZED = (401, _FORBIDDEN)
_REASON_CHARACTERS = 200
_ELSEWHERE = b'"door.unauthorized"'


class Profile(Struct, frozen=True):
    """Where a worker connects, and as whom."""

    addresses: Sequence[str]
    hello: wire.Registered
    queue: str
    plain: bool
    tls: ssl.SSLContext | None
    folder: Path | None
    ping_s: float


def pause_s(failures: int, chance: float) -> float:
    """How long to wait before the next attempt: anything up to a bound that doubles with every failure.

    `chance`, from 0 to 1, keeps workers that have lost the same node from coming back together.
    """
    return chance * min(LONGEST_PAUSE_S, math.ldexp(FIRST_PAUSE_S, min(failures, 16)))


class Client:
    """One worker at work. Made and used on one event loop; `stop` may be called from any thread.

    `connected` is called once, when a node has let it in for the first time.
    """

    def __init__(
        self, profile: Profile, handler: Handler, connected: Callable[[], None] | None = None
    ) -> None:
        self._profile = profile
        self._handler = handler
        self._connected = connected
        self._state = State(profile.hello, profile.queue, profile.plain)
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._desk: Desk | None = None
        self._connection: ClientConnection | None = None
        self._outbox: asyncio.Queue[str | Deliver | None] = asyncio.Queue()
        self._streams: dict[wire.TaskRef, asyncio.Task[None]] = {}
        self._welcomed = False
        self._trouble_told = False

    async def serve(self) -> None:
        """Work until stopped. Raises `Refused`, `NotSpoken` or `BadAddress` when it is of no use to try on.

        When cancelled it ends at once, and with it every handler that can be ended.
        """
        with tempfile.TemporaryDirectory(
            prefix="tidemill-worker-", dir=self._profile.folder, ignore_cleanup_errors=True
        ) as folder:
            self._desk = Desk(Path(folder), self._handler, self._tell)
            line = asyncio.create_task(self._stay_connected())
            ended = asyncio.create_task(self._ended.wait())
            try:
                await asyncio.wait({line, ended}, return_when=asyncio.FIRST_COMPLETED)
                if not line.done() and self._connection is not None:
                    self._outbox.put_nowait(None)
                    await asyncio.wait({line}, timeout=2 * _CLOSE_S)
                if line.done():
                    line.result()
            finally:
                line.cancel()
                ended.cancel()
                await asyncio.gather(line, ended, return_exceptions=True)
                await self._desk.close()

    def stop(self) -> None:
        """Take no more tasks, finish those that are there, then end."""
        with suppress(RuntimeError):  # the loop is closed: it has ended already
            self._loop.call_soon_threadsafe(self._tell, Stopping())

    # The session

    def _tell(self, event: Event) -> None:
        _note_failure(self._state, event)
        self._state, effects = step(self._state, event)
        for effect in effects:
            self._perform(effect)
        if self._state.finished:
            self._ended.set()

    def _perform(self, effect: Effect) -> None:
        assert self._desk is not None, "it is told of nothing before it serves"
        match effect:
            case Send(message):
                self._outbox.put_nowait(wire.encoded(message))
            case Deliver(ref, content, result) if result is not None:
                self._streams[ref] = asyncio.create_task(self._stream(ref, content, result))
            case Deliver():
                # In turn with other messages: a worker that says it is ready has answered before.
                self._outbox.put_nowait(effect)
            case Forget(ref):
                if (stream := self._streams.pop(ref, None)) is not None:
                    stream.cancel()
                self._desk.perform(effect)
            case _:
                self._desk.perform(effect)

    # The connection

    async def _stay_connected(self) -> None:
        failures = 0
        for address in itertools.cycle(self._profile.addresses):
            began = self._loop.time()
            self._welcomed = False
            reason = await self._visit(address)
            if self._ended.is_set():
                return
            self._tell_trouble(address, reason)
            steady = self._welcomed and self._loop.time() - began >= STEADY_S
            failures = 0 if steady else failures + 1
            await asyncio.sleep(pause_s(failures, random.random()))

    def _tell_trouble(self, address: str, reason: str) -> None:
        """Once each time that things change, and not for every attempt."""
        if self._welcomed:
            log.warning("worker.connection_lost", address=address, reason=reason)
        elif not self._trouble_told:
            log.warning("worker.unreachable", address=address, reason=reason)
        else:
            log.debug("worker.unreachable", address=address, reason=reason)
        self._trouble_told = True

    async def _visit(self, address: str) -> str:
        """Connect and stay until the connection ends; why it ended."""
        try:
            async with self._connect(address) as connection:
                if not self._profile.plain and connection.subprotocol != wire.SUBPROTOCOL:
                    raise NotSpoken(f"{address} does not speak {wire.SUBPROTOCOL}; the plain protocol may do")
                await self._converse(connection)
        except ConnectionClosed as error:
            return self._farewell(error)
        except InvalidStatus as error:
            return _unwelcome(address, error)
        except (InvalidURI, InvalidProxy) as error:
            raise BadAddress(str(error)) from error
        except NegotiationError as error:
            raise NotSpoken(f"{address}: {error}") from error
        except (OSError, WebSocketException) as error:
            return str(error) or type(error).__name__
        return "closed"

    def _connect(self, address: str) -> connect:
        profile = self._profile
        options: dict[str, Any] = {}
        if profile.tls is not None and address.startswith("wss:"):
            options["ssl"] = profile.tls
        return connect(
            address,
            subprotocols=None if profile.plain else [Subprotocol(wire.SUBPROTOCOL)],
            compression=None,
            open_timeout=_OPEN_S,
            ping_interval=profile.ping_s,
            ping_timeout=profile.ping_s,
            close_timeout=_CLOSE_S,
            max_size=None if profile.plain else _MESSAGE_BYTES,
            **options,
        )

    async def _converse(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._outbox = asyncio.Queue()
        writer = asyncio.create_task(self._write(connection, self._outbox))
        try:
            self._tell(Connected())
            while True:
                self._hear(await connection.recv())
                if self._state.line is Line.UP and not self._welcomed:
                    self._welcomed, self._trouble_told = True, False
                    log.info("worker.connected", session=self._state.hello.session, id=self._state.hello.id)
                    self._tell_connected()
        finally:
            self._connection = None
            self._tell(Lost())
            tasks = [writer, *self._streams.values()]
            self._streams.clear()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _tell_connected(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            connected()

    def _hear(self, message: str | bytes) -> None:
        try:
            if isinstance(message, str):
                heard = wire.from_node(message)
                _note(heard)
                self._tell(Heard(heard))
            elif self._profile.plain:
                self._tell(HeardPayload(message))
            else:
                self._tell(HeardChunk(*wire.from_chunk(message)))
        except wire.BadMessage as error:
            # A newer node may say more than this worker understands.
            log.debug("worker.message_ignored", reason=str(error))

    def _farewell(self, error: ConnectionClosed) -> str:
        if error.rcvd is None:
            return str(error)
        reason = error.rcvd.reason or f"closed with code {error.rcvd.code}"
        # A node that was too slow to answer a registration in time, as without its database, closes with the
        # same code as one that refuses it.
        if error.rcvd.code == _POLICY and not self._welcomed and not reason.startswith(_LATE):
            raise Refused(reason) from error
        return reason

    # What is sent

    async def _write(self, connection: ClientConnection, outbox: asyncio.Queue[str | Deliver | None]) -> None:
        while (item := await outbox.get()) is not None:
            if isinstance(item, Deliver):
                await self._send_whole(connection, item)
            else:
                await connection.send(item)
        await connection.close()

    async def _send_whole(self, connection: ClientConnection, deliver: Deliver) -> None:
        """The result of a plain job: one message, in several frames if it is a file."""
        content = deliver.content
        try:
            await connection.send(
                content if isinstance(content, bytes) else pieces(content, wire.CHUNK_BYTES)
            )
        except OSError as error:
            self._tell(Ended(deliver.ref, Failure(f"the result cannot be read: {error}")))
        else:
            self._tell(Sent(deliver.ref))

    async def _stream(self, ref: wire.TaskRef, content: bytes | Path, result: wire.Result) -> None:
        connection = self._connection
        assert connection is not None, "results are delivered while the line is up"
        assert result.stream is not None
        digest, rest = hashlib.sha256(), result.size or 0
        try:
            await connection.send(wire.encoded(result))
            for piece in pieces(content, min(wire.CHUNK_BYTES, self._state.message_bytes - 4)):
                rest -= len(piece)
                if rest < 0:
                    break
                digest.update(piece)
                await connection.send(wire.chunk(result.stream, piece))
            if rest:
                raise OSError("its size has changed")
            await connection.send(wire.encoded(wire.StreamEnded(result.stream, digest.hexdigest())))
        except ConnectionClosed:
            return  # it is sent anew over the next connection
        except OSError as error:
            self._tell(Ended(ref, Failure(f"the result cannot be read: {error}")))


def _unwelcome(address: str, error: InvalidStatus) -> str:
    """Why a node, or a proxy before it, made no WebSocket. Raises `Refused` or `BadAddress` if for good.

    A node lets whoever comes to its door for workers register, and looks at the token then: one that asks
    for a token before, or answers 403 without a word, has no such door at that path. A 404 is no proof of
    that, as it is also what proxies say whose node is not there yet.
    """
    response = error.response
    body = bytes(response.body or b"")
    said = body[:200].decode(errors="replace").strip()
    answer = f"HTTP {response.status_code} {response.reason_phrase}".strip()
    if (response.status_code == _FORBIDDEN and not said) or _ELSEWHERE in body:
        raise BadAddress(
            f"there is no door for workers at {address} ({answer}); is its path right?"
        ) from error
    reason = f"{answer}: {said}" if said else answer
    if response.status_code in _UNAUTHORIZED:
        raise Refused(reason) from error
    return f"{answer}: no door for workers at this path" if response.status_code == _NOT_FOUND else reason


def _note_failure(state: State, event: Event) -> None:
    """Tell people of a job that has failed, unless nobody wants it any more."""
    match event:
        case Ended(ref, Failure(info)) if ref in state.works and state.works[ref].stage is not Stage.DROPPED:
            log.info("worker.job_failed", task=ref.task, reason=(info or "")[:_REASON_CHARACTERS])


def _note(message: wire.FromNode) -> None:
    """Tell people what the session passes over in silence."""
    match message:
        case wire.Settled(task, fence, False, reason):
            log.warning("worker.result_unwanted", task=task, fence=fence, reason=reason)
        case wire.Cancelled(task, fence, reason):
            log.info("worker.task_cancelled", task=task, fence=fence, reason=reason)
