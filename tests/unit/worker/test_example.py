"""The worker in another language, which knows nothing but the plain protocol."""

import asyncio
import json
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from unit.worker.nodes import Node, Visit, node

EXAMPLE = Path(__file__).parents[3] / "examples" / "worker.mjs"


@pytest.fixture(autouse=True)
def _node() -> None:
    if shutil.which("node") is None and "CI" not in os.environ:
        pytest.skip("node, which runs the example, is not on this machine")


@asynccontextmanager
async def running(played: Node, *, token: str = "secret") -> AsyncIterator[Process]:
    command = ["node", "--no-warnings", "--experimental-websocket", str(EXAMPLE), played.url + "/mill", "a b"]
    environment = os.environ | {"TIDEMILL_TOKEN": token}
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=DEVNULL, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def hear(visit: Visit) -> Any:
    """The next message as it is on the wire."""
    async with asyncio.timeout(30):
        message = await visit.connection.recv()
    return json.loads(message) if isinstance(message, str) else message


async def ask(visit: Visit) -> Any:
    await visit.connection.send('{"code": 2}')
    return await hear(visit)


async def greeted(played: Node) -> Visit:
    visit = await played.visit()
    hello = await hear(visit)
    assert hello.keys() == {"code", "name", "id", "token"}
    assert (hello["code"], hello["token"]) == (0, "secret")
    assert await ask(visit) == {"code": 1, "status": 1}
    return visit


async def test_it_registers_works_reports_and_comes_back() -> None:
    async with node() as played, running(played):
        visit = await greeted(played)
        assert (visit.path, visit.plain) == ("/mill/api/worker/a%20b", True)

        await visit.connection.send("gr\u00fcezi".encode())
        assert await hear(visit) == {"code": 3, "percent": 50, "info": "shouting"}
        assert await hear(visit) == "GR\u00dcEZI".encode()
        visit.cut()

        visit = await greeted(played)
        await visit.connection.send(b"\xff")
        await hear(visit)
        failed = await hear(visit)
        assert (failed["code"], set(failed)) == (4, {"code", "info", "logs"})
        assert await ask(visit) == {"code": 1, "status": 1}


async def test_it_tries_again_where_there_is_no_node_yet() -> None:
    answers = [HTTPStatus.BAD_GATEWAY, HTTPStatus.BAD_GATEWAY]

    def respond(connection: ServerConnection, request: Request) -> Response | None:
        return connection.respond(answers.pop(), "") if answers else None

    async with node(process_request=respond) as played, running(played):
        await greeted(played)


async def test_it_stops_when_it_is_refused() -> None:
    async with node() as played, running(played) as process:
        visit = await played.visit()
        await hear(visit)
        await visit.close(1008, "the token opens nothing")
        _, said = await asyncio.wait_for(process.communicate(), 30)

        assert process.returncode == 5
        assert said == b"refused: the token opens nothing\n"


async def test_it_leaves_in_order_when_told_to() -> None:
    async with node() as played, running(played) as process:
        visit = await greeted(played)
        process.send_signal(signal.SIGTERM)

        assert await hear(visit) == {"code": 1, "status": 0}
        assert await visit.gone() == 1000
        assert await asyncio.wait_for(process.wait(), 30) == 0
