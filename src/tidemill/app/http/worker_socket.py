"""The WebSocket of workers: between the server's messages and the links of the dispatcher."""

import asyncio
from collections.abc import Awaitable

from fastapi import APIRouter, WebSocket
from starlette.types import Message
from starlette.websockets import WebSocketDisconnect

from tidemill.app.http.context import NodeContext
from tidemill.base.errors import TidemillError
from tidemill.base.log import get_logger
from tidemill.store import StoreError
from tidemill.tasks.errors import NoSuchQueue
from tidemill.tasks.queue import DEFAULT, get_queue
from tidemill.tasks.remote.jobs import STORE_AWAY
from tidemill.tasks.remote.link import Link
from tidemill.tasks.remote.session import POLICY, TROUBLE
from tidemill.worker.wire import SUBPROTOCOL

log = get_logger("tidemill.worker_socket")


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(tags=["workers"])

    @router.websocket("/api/worker")
    async def take_any(socket: WebSocket) -> None:
        await serve(context, socket, DEFAULT)

    @router.websocket("/api/worker/{job_type:path}")
    async def take_typed(socket: WebSocket, job_type: str) -> None:
        await serve(context, socket, job_type)

    return router


async def serve(context: NodeContext, socket: WebSocket, queue: str) -> None:
    """One worker, from its first message to its last."""
    offered = SUBPROTOCOL in socket.scope.get("subprotocols", ())
    chosen = SUBPROTOCOL if offered else None
    await socket.receive()  # that it wants to connect
    await socket.send({"type": "websocket.accept", "subprotocol": chosen, "headers": [], "pieces": True})
    dispatch = context.tasking.dispatch
    try:
        if (await get_queue(context.store, queue)).kind != "remote":
            return await socket.close(POLICY, f"queue {queue!r:.60} has no remote workers")
    except NoSuchQueue:
        return await socket.close(POLICY, f"there is no queue {queue!r:.60}")
    except StoreError as error:
        log.warning("worker.socket", error=str(error), code=error.code)
        return await socket.close(TROUBLE, STORE_AWAY)
    rules = dispatch.rules
    link = Link(_Socket(socket), dispatch, dispatch.shelves, queue, plain=not offered, rules=rules)
    clock = asyncio.create_task(_timed(link))
    reason = ""
    try:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                reason = message.get("reason") or ""
                break
            await _take_in(link, message)
    except (ConnectionError, WebSocketDisconnect, RuntimeError) as error:
        reason = str(error)
    except TidemillError as error:
        log.warning("worker.socket", error=str(error), code=error.code)
        await link.close(TROUBLE, STORE_AWAY)
    finally:
        clock.cancel()
        dispatch.left(link, reason)
        await link.forget()
    return None


async def _take_in(link: Link, message: Message) -> None:
    text, more = message.get("text"), bool(message.get("more"))
    if text is not None:
        await link.heard(text)
    elif more or link.is_amid:
        await link.heard_piece(message["bytes"], more=more)
    else:
        await link.heard(message["bytes"])


async def _timed(link: Link) -> None:
    try:
        await link.keep_time()
    except ConnectionError:
        pass


class _Socket:
    """What a link needs of a WebSocket."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def send_text(self, text: str) -> None:
        await self._send(self._socket.send_text(text))

    async def send_bytes(self, content: bytes, *, more: bool = False) -> None:
        # Where messages cannot be sent in pieces, `more` goes unheeded: that is the server's own part.
        message = {"type": "websocket.send", "bytes": content, "more": more}
        await self._send(self._socket.send(message))

    async def close(self, code: int, reason: str) -> None:
        await self._send(self._socket.close(code, reason))

    async def _send(self, sending: Awaitable[None]) -> None:
        try:
            await sending
        except (WebSocketDisconnect, RuntimeError) as error:
            raise ConnectionError(f"the worker is gone: {error}") from error
