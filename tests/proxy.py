"""A proxy between a client and its database that fails when told to, and only then.

`cut` and `refuse` are what clients see of a crash, `stall` is a network that swallows everything, and
the two `lose_next_…` make the two cases that a client cannot tell apart: the request was never carried
out, or it was and only the answer is missing.
"""

import asyncio
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_CHUNK = 1 << 20


class CuttingProxy:
    """Forwards connections made to `port` on the loopback address; use as an async context."""

    def __init__(self, target_host: str, target_port: int) -> None:
        self._target = (target_host, target_port)
        self._server: asyncio.Server | None = None
        self._links: dict[asyncio.Task[None], _Link] = {}
        self._refusing = False
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._lose_reply_to: bytes | None = None
        self._lose_request: bytes | None = None
        self._carried = 0
        self.lost = 0
        """How many requests or replies were lost because a `lose_next_…` said so."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_CHUNK)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        tasks = list(self._links)
        self.cut()
        self.heal()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def port(self) -> int:
        assert self._server is not None, "enter the proxy first"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def open_connections(self) -> int:
        return len(self._links)

    def lose_next_reply(self, containing: bytes = b"", *, after: int = 0) -> None:
        """Let the next request with these bytes be carried out to its end, but lose the answer.

        The client sees its connection break, after the server has done everything it was sent; before that,
        it may see the first bytes of the answer.
        """
        self._lose_reply_to = containing
        self._carried = after

    def lose_next_request(self, containing: bytes = b"", *, after: int = 0) -> None:
        """Break the connection on which the next request with these bytes comes.

        None of the request is forwarded, or no more than so many bytes.
        """
        self._lose_request = containing
        self._carried = after

    def cut(self) -> None:
        """Break every connection that is open now."""
        for link in self._links.values():
            link.abort()

    def refuse(self) -> None:
        """Break every connection, and every new one at once, until `heal`."""
        self._refusing = True
        self.cut()

    def stall(self) -> None:
        """Keep connections open and carry nothing, until `heal`."""
        self._flowing.clear()

    def heal(self) -> None:
        """Carry everything from now on. What stalled arrives; what was cut stays cut."""
        self._refusing = False
        self._lose_reply_to = self._lose_request = None
        self._flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if not self._refusing:
                onward = await asyncio.open_connection(*self._target, limit=_CHUNK)
                link = self._links[task] = _Link(reader, writer, *onward)
                await self._carry(link)
        except OSError:
            # Either side broke off: for the other one that is the end as well.
            pass
        finally:
            writer.transport.abort()
            self._links.pop(task, None)

    async def _carry(self, link: "_Link") -> None:
        both = [asyncio.ensure_future(self._requests(link)), asyncio.ensure_future(self._replies(link))]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            link.abort()
            await asyncio.gather(*both, return_exceptions=True)

    async def _requests(self, link: "_Link") -> None:
        while data := await link.from_client.read(_CHUNK):
            await self._flowing.wait()
            if self._lose_request is not None and self._lose_request in data:
                self._lose_request = None
                link.loses_request = True
            if self._lose_reply_to is not None and self._lose_reply_to in data:
                self._lose_reply_to = None
                link.loses_reply = True
            if link.loses_request and not await self._carry_on(link.to_server, data):
                self.lost += 1
                return
            if not link.loses_request:
                link.to_server.write(data)
                await link.to_server.drain()

    async def _replies(self, link: "_Link") -> None:
        while data := await link.from_server.read(_CHUNK):
            await self._flowing.wait()
            if link.loses_reply and not await self._carry_on(link.to_client, data):
                # With its input ended the server finishes what it has, and then closes.
                link.to_server.write_eof()
                while await link.from_server.read(_CHUNK):
                    pass
                self.lost += 1
                return
            if not link.loses_reply:
                link.to_client.write(data)
                await link.to_client.drain()

    async def _carry_on(self, to: asyncio.StreamWriter, data: bytes) -> bool:
        """Carry no more of what is to be lost than allowed. False when that is used up."""
        to.write(data[: self._carried])
        await to.drain()
        self._carried = max(0, self._carried - len(data))
        return self._carried > 0


@dataclass(slots=True)
class _Link:
    """The two connections of one client."""

    from_client: asyncio.StreamReader
    to_client: asyncio.StreamWriter
    from_server: asyncio.StreamReader
    to_server: asyncio.StreamWriter
    loses_request: bool = False
    loses_reply: bool = False

    def abort(self) -> None:
        """Both sides see the end at once, not when the event loop comes round to it."""
        for writer in (self.to_client, self.to_server):
            # A socket of our own on the same connection: that of an event loop may be only a likeness.
            with suppress(OSError), socket.socket(fileno=os.dup(_number(writer))) as connection:
                connection.shutdown(socket.SHUT_RDWR)
            writer.transport.abort()


def _number(writer: asyncio.StreamWriter) -> int:
    number: int = writer.get_extra_info("socket").fileno()
    return number
