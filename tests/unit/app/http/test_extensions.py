"""Routes that packages add, and files of a folder: ours win, the door guards them all, nothing leaks."""

import asyncio
import importlib
import itertools
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from served import served
from tidemill.app.http import build_app, load_extensions
from tidemill.app.node import run_node
from tidemill.app.settings import SettingError, Settings
from tidemill.app.tokens import Role, create_token
from tidemill.store import Store

URL = "http://127.0.0.1:7433"

ROUTES = """
from fastapi import APIRouter, Depends, Request, WebSocket
from tidemill.app.http import require
from tidemill.app.tokens import Role

def nested(caller=require(Role.WORKER)):
    return caller

def init(router, options):
    @router.get("/rows")
    async def get_rows(request: Request):
        return {"rows": options["rows"], "node": request.app.state.node.cluster().name}

    @router.post("/rows")
    async def post_rows():
        return {"done": True}

    @router.get("/for-admins", dependencies=[require(Role.ADMIN)])
    async def get_secrets():
        return {}

    @router.post("/for-workers")
    async def post_work(caller=Depends(nested)):
        return {}

    @router.get("/healthz")
    @router.get("/api/v1/cluster")
    @router.get("/")
    async def get_ours():
        return {"stolen": True}

    @router.websocket("/talk")
    async def talk(websocket: WebSocket):
        await websocket.accept()
        await websocket.send_text("hello")

    inner = APIRouter(prefix="/inner")
    inner.add_api_route("/rows", get_rows)
    router.include_router(inner)
"""

Client = httpx2.AsyncClient
Package = Callable[[str], str]
_numbers = itertools.count()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    """Make a package of that text that can be imported; gives its name."""
    made: list[str] = []

    def make(text: str) -> str:
        made.append(f"extension_{next(_numbers)}")
        (tmp_path / f"{made[-1]}.py").write_text(text)
        importlib.invalidate_caches()
        return made[-1]

    monkeypatch.syspath_prepend(tmp_path)
    yield make
    for name in made:
        sys.modules.pop(name, None)


@pytest.fixture
async def reach(node: Any) -> AsyncIterator[Callable[..., Client]]:
    """A client of a node with those settings; `token` is sent as bearer."""
    async with AsyncExitStack() as stack:

        def make(settings: Settings, token: str | None = None) -> Client:
            node.settings = settings
            app = build_app(node, load_extensions(settings))
            client = httpx2.AsyncClient(
                transport=httpx2.ASGITransport(app=app, raise_app_exceptions=False),
                base_url=URL,
                headers={"Authorization": f"Bearer {token}"} if token else {},
            )
            stack.push_async_callback(client.aclose)
            return client

        yield make


Reach = Callable[..., Client]


async def test_an_extensions_routes_answer_with_its_options(package: Package, reach: Reach) -> None:
    client = reach(Settings(web_extensions={package(ROUTES): {"rows": 5}}))

    assert (await client.get("/rows")).json() == {"rows": 5, "node": "alpha"}
    assert (await client.get("/inner/rows")).json() == {"rows": 5, "node": "alpha"}
    assert "/rows" in (await client.get("/api/openapi.json")).json()["paths"]


async def test_our_own_routes_win(package: Package, reach: Reach) -> None:
    client = reach(Settings(web_extensions={package(ROUTES): {}}))

    for path in ("/", "/healthz", "/api/v1/cluster"):
        assert "stolen" not in (await client.get(path)).text


@pytest.mark.parametrize(
    ("role", "statuses"),
    [
        (None, [401, 401, 401, 401, 401]),
        (Role.VIEWER, [200, 200, 403, 403, 403]),
        (Role.OPERATOR, [200, 200, 200, 403, 403]),
        (Role.ADMIN, [200, 200, 200, 200, 403]),
        (Role.WORKER, [403, 403, 403, 403, 200]),
    ],
)
async def test_a_route_that_names_no_role_needs_one_all_the_same(
    store: Store, package: Package, reach: Reach, role: Role | None, statuses: list[int]
) -> None:
    _, secret = await create_token(store, "ci", [role or Role.ADMIN])
    client = reach(Settings(web_extensions={package(ROUTES): {"rows": 5}}), secret if role else None)

    answers = [
        await client.get("/rows"),
        await client.get("/inner/rows"),
        await client.post("/rows"),
        await client.get("/for-admins"),
        await client.post("/for-workers"),
    ]

    assert [answer.status_code for answer in answers] == statuses


@pytest.mark.parametrize("header", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
async def test_the_door_is_before_extensions_too(
    package: Package, reach: Reach, header: dict[str, str]
) -> None:
    client = reach(Settings(web_extensions={package(ROUTES): {"rows": 5}}))

    assert (await client.get("/rows", headers=header)).status_code == 403


@pytest.mark.parametrize(("role", "let_in"), [(Role.VIEWER, False), (Role.OPERATOR, True)])
async def test_a_websocket_that_names_no_role_needs_an_operator(
    node: Any, store: Store, package: Package, role: Role, let_in: bool
) -> None:
    _, secret = await create_token(store, "ci", [role])
    extensions = load_extensions(Settings(web_extensions={package(ROUTES): {}}))

    async with served(build_app(node, extensions), node.settings) as address:
        talking = connect(f"ws://{address}/talk", additional_headers={"Authorization": f"Bearer {secret}"})
        if let_in:
            async with talking as websocket:
                assert await websocket.recv() == "hello"
        else:
            with pytest.raises(InvalidStatus):
                await talking


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 1", "it has no function init(router, options)"),
        ("init = 1", "it has no function init(router, options)"),
        ("import no_such_thing", "ModuleNotFoundError: No module named 'no_such_thing'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def init(router, options): options['rows']", "KeyError: 'rows'"),
        ("def init(router, options): router.mount('/x', print)", "which the door cannot guard"),
        ("def init(router, options): router.add_route('/x', print)", "which the door cannot guard"),
    ],
)
def test_an_extension_that_cannot_be_had_refuses_the_start(package: Package, text: str, reason: str) -> None:
    name = package(text)

    with pytest.raises(SettingError) as caught:
        load_extensions(Settings(web_extensions={name: {}}))

    assert str(caught.value).startswith(f"setting web_extensions: {name!r} (from default) is not allowed; ")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"web_extensions": {"no_such.package": {}}}, "setting web_extensions: 'no_such.package'"),
        ({"web_root": Path("nowhere")}, "setting web_root: 'nowhere' .* a folder that exists"),
        ({"task_runner": Path("/nowhere")}, "setting task_runner: '/nowhere' .* a program"),
    ],
)
def test_a_node_told_to_serve_what_is_not_there_does_not_start(
    tmp_path: Path, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        asyncio.run(run_node(Settings(data=tmp_path, port=0, **wrong)))

    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def web_root(tmp_path: Path) -> Path:
    """A folder to serve, with a secret beside it and a link that leads there."""
    (tmp_path / "secret.txt").write_text("secret")
    root = tmp_path / "www"
    (root / "deep").mkdir(parents=True)
    (root / "deep" / "page.html").write_text("<p>deep</p>")
    (root / "index.html").write_text("<p>not ours</p>")
    (root / "healthz").write_text("not ours")
    (root / "out.txt").symlink_to(tmp_path / "secret.txt")
    return root


async def test_files_are_served_where_no_route_is(web_root: Path, reach: Reach) -> None:
    client = reach(Settings(web_root=web_root))

    page = await client.get("/deep/page.html")

    assert (page.text, page.headers["Content-Type"]) == ("<p>deep</p>", "text/html; charset=utf-8")
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    for path in ("/", "/healthz"):
        assert "not ours" not in (await client.get(path)).text
    assert (await client.get("/nope")).json()["code"] == "http.not_found"
    assert (await client.delete("/api/v1/cluster")).status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/deep/%2e%2e/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/%2f%2e%2e/secret.txt",
        "/out.txt",
        "/deep",
        "/deep/",
        "/%00",
    ],
)
async def test_nothing_but_files_of_the_folder_is_served(web_root: Path, reach: Reach, path: str) -> None:
    answer = await reach(Settings(web_root=web_root)).get(path)

    assert answer.status_code == 404
    assert "secret" not in answer.json()["detail"]


@pytest.mark.parametrize(("role", "status"), [(None, 401), (Role.WORKER, 403), (Role.VIEWER, 200)])
async def test_files_are_for_those_who_may_view(
    store: Store, web_root: Path, reach: Reach, role: Role | None, status: int
) -> None:
    _, secret = await create_token(store, "ci", [role or Role.VIEWER])
    client = reach(Settings(web_root=web_root), secret if role else None)

    assert (await client.get("/deep/page.html")).status_code == status
