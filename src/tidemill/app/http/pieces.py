"""Messages of a WebSocket in pieces: a large one is never whole in the memory of a node, in either direction.

ASGI knows only whole messages. A route that says `"pieces": True` when it accepts a WebSocket is given binary
messages as they arrive, each piece with `more`, and may send them so:

    {"type": "websocket.receive", "bytes": b"…", "more": True}
    {"type": "websocket.send", "bytes": b"…", "more": True}

On the wire such a message is one in fragments, as every WebSocket understands.
"""

import struct
from typing import Any, Final

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.frames import Frame

PIECE_BYTES: Final = 1024 * 1024
"""The largest piece. A multiple of four, as the mask of a frame repeats after as many bytes."""

LINGER_S: Final = 30.0
PAUSE_S: Final = 2.0
"""For how long what a refused client still sends is taken in: in all, and after the last of it."""

_CONTINUATION, _BINARY = 0, 2
_FIN, _MASKED = 0x80, 0x80


class Splitter:
    """Cuts the large binary frames of a client into smaller ones, before anybody parses them. Pure.

    What is larger than `most` is left as it is: whoever parses it refuses it by its length.
    """

    def __init__(self, most: int, piece: int = PIECE_BYTES) -> None:
        self._most = most
        self._piece = piece
        self._head = bytearray()
        self._left = 0
        """How much of the frame's content is still to come."""
        self._room = 0
        """How much of that is in the piece that has begun."""
        self._cut: tuple[int, int, bytes] | None = None
        """Of a frame that is being cut: whether it is the last of its message, its kind, and its mask."""

    def feed(self, data: bytes) -> bytes:
        """The same frames, cut. May be called with any part of them."""
        out, at = bytearray(), 0
        while at < len(data):
            if self._left == 0:
                at = self._read_head(data, at, out)
                continue
            if self._room == 0:
                self._begin_piece(out)
            part = data[at : at + self._room]
            out += part
            at, self._left, self._room = at + len(part), self._left - len(part), self._room - len(part)
        return bytes(out)

    def _read_head(self, data: bytes, at: int, out: bytearray) -> int:
        """Read on until the head of a frame is whole; returns how far."""
        while at < len(data) and len(self._head) < _head_size(self._head):
            self._head.append(data[at])
            at += 1
        if len(self._head) == _head_size(self._head):
            self._begin_frame(bytes(self._head), out)
            self._head.clear()
        return at

    def _begin_frame(self, head: bytes, out: bytearray) -> None:
        self._left = _length(head)
        kind, masked = head[0] & 0x7F, bool(head[1] & _MASKED)
        is_large = self._piece < self._left <= self._most
        if is_large and masked and kind in (_BINARY, _CONTINUATION):
            self._cut, self._room = (head[0] & _FIN, kind, head[-4:]), 0
        else:
            self._cut, self._room = None, self._left
            out += head

    def _begin_piece(self, out: bytearray) -> None:
        assert self._cut is not None, "a frame that is not cut is one piece"
        fin, kind, mask = self._cut
        self._room = min(self._piece, self._left)
        is_last = self._room == self._left
        out += _head(kind | (fin if is_last else 0), self._room) + mask
        self._cut = (fin, _CONTINUATION, mask)


def _head_size(head: bytearray) -> int:
    """How many bytes the head of a frame has, as far as that can be told."""
    if len(head) < 2:
        return 2
    return 2 + {126: 2, 127: 8}.get(head[1] & 0x7F, 0) + (4 if head[1] & _MASKED else 0)


def _length(head: bytes) -> int:
    length = head[1] & 0x7F
    if length == 126:
        return int(struct.unpack_from("!H", head, 2)[0])
    return int(struct.unpack_from("!Q", head, 2)[0]) if length == 127 else length


def _head(first: int, length: int) -> bytes:
    if length < 126:
        return struct.pack("!BB", first, _MASKED | length)
    if length < 2**16:
        return struct.pack("!BBH", first, _MASKED | 126, length)
    return struct.pack("!BBQ", first, _MASKED | 127, length)


class PiecewiseProtocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, with messages in pieces for those who ask for them."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._splitter: Splitter | None = None
        self._sending = False
        self._refused: float | None = None

    def handle_parser_exception(self) -> None:
        """Say why what came is refused, and take in what still comes: closed with some of it unread, the
        connection would be reset, and the client might never read why."""
        assert self.conn.close_sent is not None, "that is how it is found out"
        code, reason = self.conn.close_sent.code, self.conn.close_sent.reason
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent, self._refused = True, self.loop.time()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self._pass_over()

    def _pass_over(self) -> None:
        """Close after a pause in which nothing comes, or when it has been long enough."""
        assert self._refused is not None, "only what is refused is passed over"
        if self.close_timer is not None:
            self.close_timer.cancel()
        rest_s = min(PAUSE_S, self._refused + LINGER_S - self.loop.time())
        self.close_timer = self.loop.call_later(max(rest_s, 0.0), self.transport.close)

    def data_received(self, data: bytes) -> None:
        if self._refused is not None:
            return self._pass_over()
        return super().data_received(data if self._splitter is None else self._splitter.feed(data))

    def handle_bytes(self, event: Frame) -> None:
        if self._splitter is None:
            return super().handle_bytes(event)
        self.curr_msg_data_type = "bytes"
        return self._pass_on(event)

    def handle_cont(self, event: Frame) -> None:
        if self._splitter is None or self.curr_msg_data_type != "bytes":
            return super().handle_cont(event)
        return self._pass_on(event)

    def _pass_on(self, event: Frame) -> None:
        if self.close_sent:
            return
        message: Any = {"type": "websocket.receive", "bytes": bytes(event.data), "more": not event.fin}
        self.queue.put_nowait(message)
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.accept" and message.get("pieces"):
            self._splitter = Splitter(self.config.ws_max_size)
        if message["type"] != "websocket.send" or "more" not in message:
            return await super().send(message)
        await self.writable.wait()
        if self.disconnected or self.close_sent:
            raise ClientDisconnected
        try:
            if self._sending:
                self.conn.send_continuation(message["bytes"], fin=not message["more"])
            else:
                self.conn.send_binary(message["bytes"], fin=not message["more"])
        except InvalidState:
            raise ClientDisconnected from None
        self._sending = message["more"]
        for part in self.conn.data_to_send():
            self.transport.write(part)
        return None
