"""Locks and semaphores for programs that reach this node but not its store, over a WebSocket."""

import asyncio
from typing import Any, NoReturn

import msgspec
from fastapi import APIRouter
from starlette.websockets import WebSocket, WebSocketDisconnect

from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.mask import masked_text
from tidemill.app.tokens import Role
from tidemill.cluster import SEMAPHORES
from tidemill.cluster.lock import LOCKS
from tidemill.store import (
    BadRequest,
    Collection,
    Done,
    Lost,
    Outcome,
    Store,
    StoreError,
    Term,
    Unavailable,
    Write,
    ge,
    lt,
)
from tidemill.store.backends.node import wire

_OFFERED = {collection.name: collection for collection in (LOCKS, SEMAPHORES)}
WATCH_POLL_S = 60.0


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(tags=["leases"])

    @router.websocket(wire.PATH, dependencies=[require(Role.WORKER)])
    async def leases(websocket: WebSocket) -> None:
        await websocket.accept()
        try:
            while True:
                await _serve(context.store, websocket, await _receive(websocket))
        except WebSocketDisconnect:
            pass

    return router


async def _receive(websocket: WebSocket) -> str | bytes:
    message = await websocket.receive()
    if message["type"] != "websocket.receive":
        raise WebSocketDisconnect
    text: str | bytes = message.get("text") or message.get("bytes") or ""
    return text


async def _serve(store: Store, websocket: WebSocket, text: str | bytes) -> None:
    """Answer one request. Whatever the store may raise is an answer, too."""
    reply: wire.Reply
    try:
        request = wire.decode_request(text)
        if isinstance(request, wire.Watch):
            await _tell_changes(store, websocket)
        reply = wire.Answer(await _do(store, request))
    except msgspec.MsgspecError as error:
        reply = wire.Refusal(BadRequest.code, f"the request is not understood: {error}")
    except StoreError as error:
        maybe_applied = isinstance(error, Unavailable) and error.maybe_applied
        reply = wire.Refusal(error.code, masked_text(str(error)), maybe_applied)
    await websocket.send_text(wire.encode(reply).decode())


async def _do(store: Store, request: wire.Request) -> Any:
    match request:
        case wire.Get(collection, keys):
            return list((await store.get_many(_offered(collection), keys)).values())
        case wire.Find(collection, start, end, limit):
            where = ge("key", start), lt("key", end)
            return (await store.find(_offered(collection), *where, limit=limit)).documents
        case wire.Hold(collection, keys, holder, ttl_ms):
            return list((await store.hold(_offered(collection), keys, holder, ttl_ms)).values())
        case wire.Renew(collection, terms, ttl_ms):
            return list((await store.renew(_offered(collection), terms, ttl_ms)).values())
        case wire.Release(collection, terms):
            return await store.release(_offered(collection), terms)
        case wire.Put(changes):
            return [_revision(outcome) for outcome in await store.write([*map(_write, changes)])]
        case _:
            return await store.now()


def _write(change: wire.Change) -> Write:
    body = None if change.body is None else msgspec.structs.asdict(change.body)
    return Write(SEMAPHORES, change.key, body, change.revision if change.term is None else Term(change.term))


def _revision(outcome: Outcome) -> int | None:
    if isinstance(outcome, Lost):
        return None
    return outcome.revision if isinstance(outcome, Done) else wire.UNKNOWN


def _offered(name: str) -> Collection:
    if name not in _OFFERED:
        raise BadRequest(f"a node offers {' and '.join(_OFFERED)}, not {name!r}")
    return _OFFERED[name]


async def _tell_changes(store: Store, websocket: WebSocket) -> NoReturn:
    """Say which collection changed, until the other side hangs up or the store goes away."""
    tasks = [asyncio.create_task(_tell(store, one, websocket)) for one in _OFFERED.values()]
    tasks.append(asyncio.create_task(_hear_nothing(websocket)))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    raise WebSocketDisconnect


async def _tell(store: Store, collection: Collection, websocket: WebSocket) -> None:
    async with store.watch(collection, poll_s=WATCH_POLL_S) as watch:
        while True:
            if await watch.wait():
                await websocket.send_text(wire.encode(wire.Answer(collection.name)).decode())


async def _hear_nothing(websocket: WebSocket) -> None:
    """Ends when the other side hangs up, or says anything."""
    await websocket.receive()
