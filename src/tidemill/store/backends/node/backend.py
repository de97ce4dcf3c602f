"""The verbs of leases, over one WebSocket to a node."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.protocol import State

from tidemill.store.backend import OnChange
from tidemill.store.backends.node import wire
from tidemill.store.document import (
    Capabilities,
    Collection,
    Condition,
    Document,
    Done,
    Lease,
    Lost,
    Outcome,
    Query,
    Term,
    Unknown,
    Write,
)
from tidemill.store.errors import BadRequest, OutcomeUnknown, ReadOnly, ReleaseTooOld, StoreError, Unavailable

T = TypeVar("T")

OFFERED = frozenset({"locks", "semaphores"})
WRITABLE = "semaphores"
CLOSE_S = 1.0
AGAIN_S = 1.0
ANSWER_BYTES = 16 * 1024 * 1024

# Below that it tells every header, with the token.
logging.getLogger("websockets.client").setLevel(logging.INFO)

_ERRORS: dict[str, type[StoreError]] = {
    error.code: error for error in (BadRequest, OutcomeUnknown, ReadOnly, ReleaseTooOld)
}


class NodeBackend:
    """A node's locks and semaphores, as far as their leases go.

    A connection that broke is made anew by the next request. What was under way when it broke may have
    happened: `hold`, `renew` and `release` can be repeated, and a write is unknown.
    """

    capabilities = Capabilities(watch="push", server_time=True, shared="network")

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if not parts.hostname or parts.path not in ("", "/") or parts.password:
            raise BadRequest("write the address of a node as http://host:port, or http://TOKEN@host:port")
        scheme, port = {"http": "ws", "https": "wss"}[parts.scheme], f":{parts.port}" if parts.port else ""
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self._address = f"{scheme}://{host}{port}{wire.PATH}"
        self._server = f"the node at {host}{port}"
        self._headers = {"Authorization": f"Bearer {parts.username}"} if parts.username else {}
        self._turn = asyncio.Lock()
        self._socket: ClientConnection | None = None
        self._watching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self.now()

    async def close(self) -> None:
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()

    async def prepare(self, collection: Collection) -> None:
        if collection.name not in OFFERED:
            raise self._not_offered()

    async def get_many(self, collection: Collection, keys: Sequence[str]) -> list[Document]:
        return await self._ask(wire.Get(collection.name, list(keys)), list[Document])

    async def find(self, collection: Collection, query: Query) -> list[Document]:
        """A range of keys, and nothing else."""
        match query:
            case Query(
                (Condition("key", ">=", str(start)), Condition("key", "<", str(end))), (), limit, None, None
            ):
                return await self._ask(wire.Find(collection.name, start, end, limit), list[Document])
        raise self._not_offered()

    async def hold(
        self, collection: Collection, keys: Sequence[str], holder: str, ttl_ms: int
    ) -> list[Lease]:
        return await self._ask(wire.Hold(collection.name, list(keys), holder, ttl_ms), list[Lease])

    async def renew(self, collection: Collection, terms: Mapping[str, int], ttl_ms: int) -> list[Lease]:
        return await self._ask(wire.Renew(collection.name, dict(terms), ttl_ms), list[Lease])

    async def release(self, collection: Collection, terms: Mapping[str, int]) -> None:
        await self._ask(wire.Release(collection.name, dict(terms)), type(None))

    async def write(self, writes: Sequence[Write], nonce: int) -> list[Outcome]:
        """The node's store settles what can be settled, so the nonce is its own."""
        del nonce
        request = wire.Put([self._change(write) for write in writes])
        revisions = await self._ask(request, list[int | None], writes=True)
        return [_outcome(revision) for revision in revisions]

    async def now(self) -> int:
        return await self._ask(wire.Now(), int)

    def subscribe(self, channels: Sequence[str], on_change: OnChange) -> None:
        """The node tells of all that it offers, whatever the channels."""
        del channels
        if self._watching is None:
            self._watching = asyncio.ensure_future(self._watch(on_change))

    def announce(self, channels: Sequence[str]) -> None:
        """The node's store announces what it did for us."""

    # What a node does not offer

    async def nonces(self, *_: Any, **__: Any) -> Mapping[str, tuple[int, int]]:
        raise Unavailable(f"{self._server} does not tell what became of a write whose answer was lost")

    async def count(self, *_: Any, **__: Any) -> int:
        raise self._not_offered()

    async def claim(self, *_: Any, **__: Any) -> list[Document]:
        raise self._not_offered()

    async def claimed(self, *_: Any, **__: Any) -> list[Document]:
        raise self._not_offered()

    async def oldest_writer(self) -> str:
        raise self._not_offered()

    async def close_to_older(self, *_: Any, **__: Any) -> None:
        raise self._not_offered()

    def _not_offered(self) -> BadRequest:
        return BadRequest(f"{self._server} offers locks and semaphores alone; for more, name its store")

    # Inside

    def _change(self, write: Write) -> wire.Change:
        if write.collection.name != WRITABLE or write.fence is not None or write.release:
            raise self._not_offered()
        try:
            body = msgspec.convert(write.body, wire.Size | None)
        except msgspec.ValidationError as error:
            raise self._not_offered() from error
        term = write.expect.number if isinstance(write.expect, Term) else None
        return wire.Change(write.key, body, None if isinstance(write.expect, Term) else write.expect, term)

    async def _ask(self, request: wire.Request, kind: type[T], *, writes: bool = False) -> T:
        """One request and its answer."""
        async with self._turn:
            socket, self._socket = self._live() or await self._connect(), None
            try:
                await socket.send(wire.encode(request), text=True)
                reply = wire.decode_reply(await socket.recv())
            except BaseException as error:
                # What would come yet is the answer to this request, and not to the next.
                socket.transport.abort()
                if isinstance(error, WebSocketException | msgspec.MsgspecError):
                    raise Unavailable(f"{self._server} hung up", maybe_applied=writes) from error
                raise
            self._socket = socket
        if isinstance(reply, wire.Refusal):
            raise _error(reply)
        return msgspec.convert(reply.result, kind)

    def _live(self) -> ClientConnection | None:
        """The connection, unless it broke while nobody used it, when nothing was under way."""
        socket = self._socket
        return socket if socket is not None and socket.state is State.OPEN else None

    async def _watch(self, on_change: OnChange) -> None:
        """On a connection of its own; whenever that broke anything may have changed."""
        while True:
            try:
                async with await self._connect() as socket:
                    await socket.send(wire.encode(wire.Watch()), text=True)
                    async for text in socket:
                        reply = wire.decode_reply(text)
                        on_change(reply.result if isinstance(reply, wire.Answer) else None)
            except (StoreError, WebSocketException):
                pass
            on_change(None)
            await asyncio.sleep(AGAIN_S)

    async def _connect(self) -> ClientConnection:
        try:
            # A node is reached directly; its answers are small, and not worth compressing.
            return await connect(
                self._address,
                additional_headers=self._headers,
                compression=None,
                proxy=None,
                close_timeout=CLOSE_S,
                max_size=ANSWER_BYTES,
            )
        except InvalidStatus as error:
            raise self._refused(error.response.status_code) from error
        except (OSError, WebSocketException) as error:
            raise Unavailable(f"{self._server} cannot be reached: {error}") from error

    def _refused(self, status: int) -> StoreError:
        if status in (401, 403):
            return BadRequest(f"{self._server} refused with {status}; see whether the token is right")
        if status < 500:
            return BadRequest(
                f"{self._server} refused with {status}; see whether a node of Tidemill is there"
            )
        return Unavailable(f"{self._server} answers {status}")


def _outcome(revision: int | None) -> Outcome:
    if revision is None:
        return Lost()
    return Unknown() if revision == wire.UNKNOWN else Done(revision)


def _error(refusal: wire.Refusal) -> StoreError:
    kind = _ERRORS.get(refusal.code)
    if kind is None:
        return Unavailable(refusal.message, maybe_applied=refusal.maybe_applied)
    return kind(refusal.message)
