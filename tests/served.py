"""A node's app behind a real server, in the process of the test."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp

from tidemill.app.http import server_config
from tidemill.app.settings import Settings


@asynccontextmanager
async def served(app: ASGIApp, settings: Settings) -> AsyncIterator[str]:
    """The app behind a real server; gives host and port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(server_config(app, settings))
        started = asyncio.Event()
        startup: Callable[..., Awaitable[None]] = server.startup

        async def startup_and_tell(sockets: list[socket.socket] | None = None) -> None:
            await startup(sockets)
            started.set()

        server.startup = startup_and_tell  # type: ignore[method-assign]
        serving = asyncio.create_task(server.serve([listener]))
        await started.wait()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        await serving
