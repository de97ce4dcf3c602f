"""Frames that are cut before they are parsed, and messages in pieces through a real server."""

import asyncio
import socket
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.client import ClientProtocol
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import OPEN
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from served import served
from tidemill.app.http.pieces import PIECE_BYTES, Splitter
from tidemill.app.settings import Settings

PIECE = 8


def frames_of(messages: list[bytes | str]) -> bytes:
    """What a client sends for these messages."""
    client = ClientProtocol(parse_uri("ws://localhost/"))
    client._state = OPEN  # as after the handshake
    for message in messages:
        if isinstance(message, str):
            client.send_text(message.encode())
        else:
            client.send_binary(message)
    return b"".join(client.data_to_send())


def messages_of(data: bytes, most: int = 1000) -> tuple[list[bytes], int]:
    """The messages that a server hears, and the largest frame among them."""
    server = ServerProtocol(state=OPEN, max_size=most)
    server.receive_data(data)
    heard: list[bytes] = []
    largest = 0
    for event in server.events_received():
        assert isinstance(event, Frame)
        largest = max(largest, len(event.data))
        if event.opcode is Opcode.CONT:
            heard[-1] += event.data
        else:
            heard.append(bytes(event.data))
    return heard, largest


@given(
    st.lists(st.binary(max_size=300) | st.text(max_size=100), max_size=6),
    st.lists(st.integers(1, 200), min_size=1, max_size=50),
)
def test_frames_are_cut_and_say_the_same_however_they_arrive(
    messages: list[bytes | str], steps: list[int]
) -> None:
    data = frames_of(messages)
    splitter = Splitter(1000, PIECE)
    out, at, turn = b"", 0, 0
    while at < len(data):
        step = steps[turn % len(steps)]
        out += splitter.feed(data[at : at + step])
        at, turn = at + step, turn + 1

    heard, _ = messages_of(out)
    assert heard == [one.encode() if isinstance(one, str) else one for one in messages]


def test_no_piece_is_larger_than_it_may_be() -> None:
    out = Splitter(1000, PIECE).feed(frames_of([bytes(100)]))

    assert messages_of(out) == ([bytes(100)], PIECE)


def test_what_is_too_large_is_left_to_those_who_refuse_it_by_its_length() -> None:
    data = frames_of([bytes(300)])

    assert Splitter(200, PIECE).feed(data) == data


async def test_a_message_comes_and_goes_in_pieces_and_is_one_to_the_client() -> None:
    pieces: list[int] = []

    async def echo(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept", "pieces": True})
        while (message := await receive())["type"] == "websocket.receive":
            pieces.append(len(message["bytes"]))
            await send({"type": "websocket.send", "bytes": message["bytes"], "more": message["more"]})

    content = bytes(range(256)) * (4 * 4096 + 1)
    async with (
        served(echo, Settings()) as address,
        connect(f"ws://{address}/", max_size=None, compression=None) as client,
    ):
        await client.send(content)
        assert await client.recv() == content
        await client.send(b"small")
        assert await client.recv() == b"small"

    assert max(pieces) == PIECE_BYTES
    assert pieces[-1] == 5


def sent_without_reading(address: str, size: int) -> Close | None:
    """How a server closes, to a client that reads nothing before it has sent a message of that size."""
    host, port = address.split(":")
    client = ClientProtocol(parse_uri(f"ws://{address}/"))
    with socket.create_connection((host, int(port)), timeout=30) as line:
        client.send_request(client.connect())
        line.sendall(b"".join(client.data_to_send()))
        while client.state is not OPEN:
            client.receive_data(line.recv(4096))
        client.send_binary(bytes(size))
        line.sendall(b"".join(client.data_to_send()))
        while client.close_rcvd is None and (data := line.recv(4096)):
            client.receive_data(data)
    return client.close_rcvd


async def test_who_sends_too_much_is_told_so_however_much_is_still_on_its_way() -> None:
    async def hear(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept", "pieces": True})
        while (await receive())["type"] == "websocket.receive":
            pass

    async with served(hear, Settings(worker_message_mb=1)) as address:
        close = await asyncio.to_thread(sent_without_reading, address, 50 * 2**20)

    assert close is not None
    assert (close.code, "exceeds limit" in close.reason) == (1009, True)
