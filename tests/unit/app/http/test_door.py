"""The door: hosts, origins, tokens and roles, over HTTP and over a real WebSocket."""

import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest
from fastapi import WebSocket
from fastapi.routing import iter_route_contexts
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from served import served
from tidemill.app.bind import BindRefused, check_bind
from tidemill.app.http import NodeContext, build_app, require
from tidemill.app.http.door import PAGE, PUBLIC, WORKERS
from tidemill.app.settings import Settings
from tidemill.app.tokens import Keyring, Role, create_token, revoke_token
from tidemill.store import Store

Client = httpx2.AsyncClient
MakeClient = Callable[..., Client]


@pytest.mark.parametrize(
    "host", ["127.0.0.1:7433", "localhost", "LOCALHOST:1", "[::1]:7433", "127.9.9.9", "localhost."]
)
async def test_loopback_names_are_let_in(client: Client, host: str) -> None:
    assert (await client.get("/api/v1/cluster", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.5:7433",
        "localhost@evil.example",
        "a/localhost",
        "",
        "x:y:z",
    ],
)
@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics", "/api/v1/cluster", "/static/page.js"])
async def test_a_foreign_host_is_refused_everywhere(client: Client, host: str, path: str) -> None:
    answer = await client.get(path, headers={"Host": host})

    assert (answer.status_code, answer.json()["code"]) == (403, "door.host")


async def test_two_hosts_are_refused(client: Client) -> None:
    answer = await client.get("/healthz", headers=[("Host", "localhost"), ("Host", "localhost")])

    assert answer.status_code == 403


async def test_an_allowed_host_is_let_in(node: Any, make_client: MakeClient) -> None:
    node.settings = Settings(allowed_hosts=("mill.example.org",))
    client = make_client()

    assert (await client.get("/healthz", headers={"Host": "Mill.example.org:443"})).status_code == 200
    assert (await client.get("/healthz", headers={"Host": "x.mill.example.org"})).status_code == 403


async def test_beyond_loopback_numbers_and_the_machines_name_are_let_in(
    node: Any, make_client: MakeClient
) -> None:
    node.settings = Settings(host="0.0.0.0")
    client = make_client()

    for host in ("10.0.0.5:7433", f"{socket.gethostname()}:7433", "localhost"):
        assert (await client.get("/healthz", headers={"Host": host})).status_code == 200
    assert (await client.get("/healthz", headers={"Host": "evil.example"})).status_code == 403


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:7433", 200),
        ("https://127.0.0.1:7433", 200),
        ("http://127.0.0.1", 403),
        ("http://localhost:7433", 403),
        ("http://evil.example", 403),
        ("http://127.0.0.1:7433.evil.example", 403),
        ("http://127.0.0.1:7433@evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_only_our_own_page_may_call(client: Client, method: str, origin: str, status: int) -> None:
    answer = await client.request(
        method, "/api/v1/settings", json={}, headers={"Origin": origin, "If-Match": '"0"'}
    )

    assert answer.status_code == status
    if status == 403:
        assert answer.json()["code"] == "door.origin"


async def test_an_allowed_origin_may_call_and_is_told_so(node: Any, make_client: MakeClient) -> None:
    node.settings = Settings(allowed_origins=("https://ui.example.org",))
    client = make_client(Origin="https://ui.example.org")

    answer = await client.get("/api/v1/cluster")
    preflight = await client.options("/api/v1/settings", headers={"Access-Control-Request-Method": "PUT"})

    assert answer.headers["Access-Control-Allow-Origin"] == "https://ui.example.org"
    assert (preflight.status_code, answer.status_code) == (200, 200)
    assert (await client.get("/healthz", headers={"Origin": "https://other.example.org"})).status_code == 403


async def test_a_foreign_page_is_refused_before_anything_is_written(client: Client, store: Store) -> None:
    await client.put("/api/v1/settings", json={"ttl_s": 9}, headers={"Origin": "http://evil.example"})

    assert store.statistics().calls == 1  # the opening


async def test_with_a_token_in_the_store_every_path_but_the_public_needs_one(
    store: Store, client: Client
) -> None:
    await create_token(store, "ci", [Role.VIEWER])

    for path in ("/api/v1/cluster", "/api/v1/audit", "/metrics", "/overview", "/api/openapi.json", "/nope"):
        answer = await client.get(path)
        assert (path, answer.status_code) == (path, 401)
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert answer.json()["code"] == "door.unauthorized"
    for path in (PAGE, *PUBLIC, "/static/page.js"):
        assert (await client.get(path)).status_code == 200


@pytest.mark.parametrize(
    ("role", "statuses"),
    [
        (Role.VIEWER, (200, 403, 403)),
        (Role.OPERATOR, (200, 403, 403)),
        (Role.ADMIN, (200, 200, 200)),
        (Role.WORKER, (403, 403, 403)),
        (Role.PRODUCER, (403, 403, 403)),
        (Role.FUNCTION, (403, 403, 403)),
    ],
)
async def test_a_token_may_do_what_its_role_allows(
    store: Store, make_client: MakeClient, role: Role, statuses: tuple[int, ...]
) -> None:
    _, secret = await create_token(store, "ci", [role])
    client = make_client(secret)

    seen = (
        await client.get("/api/v1/cluster"),
        await client.get("/api/v1/tokens"),
        await client.put("/api/v1/settings", json={}, headers={"If-Match": '"0"'}),
    )

    assert tuple(answer.status_code for answer in seen) == statuses
    assert all(answer.json()["code"] == "door.forbidden" for answer in seen if answer.status_code == 403)


async def test_a_revoked_token_is_refused_at_once_by_the_node_that_revoked_it(
    store: Store, make_client: MakeClient
) -> None:
    _, admin = await create_token(store, "root", [Role.ADMIN])
    client = make_client(admin)
    secret = (await client.post("/api/v1/tokens", json={"name": "ci", "roles": ["viewer"]})).json()["secret"]
    bearer = {"Authorization": f"Bearer {secret}"}
    before = await client.get("/api/v1/cluster", headers=bearer)

    await client.delete("/api/v1/tokens/ci")
    after = await client.get("/api/v1/cluster", headers=bearer)

    assert (before.status_code, after.status_code) == (200, 401)


@pytest.mark.parametrize("given", ["Basic YTpi", "Bearer", "Bearer tdm_guess", "tdm_guess", "Bearer ünïcode"])
async def test_what_is_no_known_token_is_refused(client: Client, given: str) -> None:
    answer = await client.get("/api/v1/cluster", headers=[(b"Authorization", given.encode())])

    assert answer.status_code == 401


async def test_beyond_loopback_the_last_revoked_token_lets_nobody_in(
    store: Store, node: Any, make_client: MakeClient
) -> None:
    node.settings = Settings(host="0.0.0.0")
    await create_token(store, "ci", [Role.ADMIN])
    await revoke_token(store, "ci")

    assert (await make_client().get("/api/v1/cluster")).status_code == 401


def test_every_route_but_the_public_names_a_role(node: NodeContext) -> None:
    app = build_app(node)
    routes = [route for route in iter_route_contexts(app.routes) if hasattr(route, "dependant")]
    without = {
        route.path
        for route in routes
        if not any(hasattr(part.call, "role") for part in route.dependant.dependencies)
    }

    assert len(routes) > len(without)
    # Workers say their token in their first message.
    assert without == {PAGE, *PUBLIC, WORKERS, f"{WORKERS}/{{job_type:path}}"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_loopback_may_be_listened_on_without_a_token(host: str) -> None:
    check_bind(host, has_token=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "mill.example.org", "127.0.0.1.evil.example"])
def test_any_other_address_needs_a_token(host: str) -> None:
    check_bind(host, has_token=True)
    with pytest.raises(BindRefused, match="tidemill token create"):
        check_bind(host, has_token=False)


@pytest.fixture
async def echo(node: Any) -> AsyncIterator[str]:
    """A served app with a WebSocket for workers; gives its address."""
    app = build_app(node)

    @app.websocket("/echo", dependencies=[require(Role.WORKER)])
    async def repeat(websocket: WebSocket) -> None:
        await websocket.accept()
        async for text in websocket.iter_text():
            await websocket.send_text(text)

    async with served(app, node.settings) as address:
        yield f"ws://{address}/echo"


async def test_a_websocket_without_an_origin_is_let_in(echo: str) -> None:
    async with connect(echo) as websocket:
        await websocket.send("hello")

        assert await websocket.recv() == "hello"


@pytest.mark.parametrize(
    ("headers", "origin"),
    [({"Host": "evil.example"}, None), ({}, Origin("http://evil.example")), ({}, Origin("null"))],
)
async def test_a_websocket_of_a_foreign_host_or_page_is_refused(
    echo: str, headers: dict[str, str], origin: Origin | None
) -> None:
    with pytest.raises(InvalidStatus) as caught:
        async with connect(echo, additional_headers=headers, origin=origin):
            pass

    assert caught.value.response.status_code == 403


@pytest.mark.parametrize(("role", "status"), [(None, 401), (Role.VIEWER, 403), (Role.ADMIN, 403)])
async def test_a_websocket_needs_the_role_too(
    store: Store, echo: str, role: Role | None, status: int
) -> None:
    _, secret = await create_token(store, "ci", [role or Role.WORKER])
    headers = {"Authorization": f"Bearer {secret}"} if role else {}

    with pytest.raises(InvalidStatus) as caught:
        async with connect(echo, additional_headers=headers):
            pass

    assert caught.value.response.status_code == status
    assert b"application/problem+json" in str(caught.value.response.headers).encode()


async def test_a_worker_token_opens_the_websocket(store: Store, echo: str) -> None:
    _, secret = await create_token(store, "ci", [Role.WORKER])

    async with connect(echo, additional_headers={"Authorization": f"Bearer {secret}"}) as websocket:
        await websocket.send("hello")

        assert await websocket.recv() == "hello"


async def test_a_websocket_is_closed_once_its_token_is_revoked(
    store: Store, echo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Keyring, "MAX_AGE_S", 0.0)
    _, secret = await create_token(store, "ci", [Role.WORKER])
    await create_token(store, "other", [Role.WORKER])

    async with connect(echo, additional_headers={"Authorization": f"Bearer {secret}"}) as websocket:
        await websocket.send("hello")
        assert await websocket.recv() == "hello"
        await revoke_token(store, "ci")
        await websocket.send("hello")
        with pytest.raises(ConnectionClosed) as caught:
            await websocket.recv()

    assert caught.value.rcvd is not None
    assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (1008, "door.unauthorized")
