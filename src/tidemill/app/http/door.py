"""The door: who gets in, for HTTP and WebSocket alike.

Any web page can make a browser call a loopback address, so two checks come before tokens:

Host      must be a name of this node, or else a foreign name was pointed at our address (DNS rebinding)
Origin    when a browser sends it, must be our own page's or an allowed one's

Then a bearer token tells the caller and its roles. A route says what it needs with `require(Role)`. A
WebSocket whose token is revoked or expires is closed at its next message. Workers say their token in their
first message, so that their socket opens to everybody, for as long as it takes to say it.
"""

import ipaddress
import socket
from typing import Any
from urllib.parse import urlsplit

from fastapi import Depends
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemill.app.bind import check_bind, is_loopback
from tidemill.app.errors import Forbidden, ForeignHost, ForeignOrigin, Unauthorized
from tidemill.app.http.problem import problem_of
from tidemill.app.settings import Settings
from tidemill.app.tokens import Caller, Keyring, Role
from tidemill.base.errors import TidemillError
from tidemill.base.log import get_logger

__all__ = [
    "Gate",
    "Authenticate",
    "require",
    "admit",
    "caller_of",
    "changes",
    "refuse",
    "check_bind",
    "is_loopback",
    "SAFE_METHODS",
]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# These tell nothing but whether the node is well, and must answer also while the store is away.
PUBLIC = frozenset({"/healthz", "/readyz"})
PUBLIC_UNDER = "/static/"
WORKERS = "/api/worker"
# Answers everybody, but fills itself in only for those who may view.
PAGE = "/"

_CLOSE_POLICY = 1008
MOST_REMEMBERED = 1000

log = get_logger("tidemill.door")


def require(*roles: Role) -> Any:
    """The dependency by which a route declares the roles any of which it needs; gives the caller."""

    async def admitted(connection: HTTPConnection) -> Caller:  # async, or FastAPI would call it in a thread
        return admit(connection.scope, *roles)

    admitted.role = roles[0]  # type: ignore[attr-defined]  # lets a test see what each route requires
    return Depends(admitted)


def admit(scope: Scope, *roles: Role) -> Caller:
    """The caller, if it has one of those roles. Raises `Unauthorized` or `Forbidden`."""
    caller = caller_of(scope)
    if caller is None:
        raise Unauthorized("this needs a token: Authorization: Bearer tdm_…")
    if caller.roles.isdisjoint(roles):
        raise Forbidden(f"this needs the role {' or '.join(roles)}, which {caller.name!r} does not have")
    return caller


def caller_of(scope: Scope) -> Caller | None:
    """Who makes the request; None on a public path without a token that opens anything."""
    caller: Caller | None = scope.get("state", {}).get("caller")
    return caller


class Gate:
    """Refuses requests for other hosts and from pages of other origins."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._hosts = {"localhost", settings.host.strip("[]").lower(), *settings.allowed_hosts}
        self._origins = set(settings.allowed_origins)
        self._networked = not is_loopback(settings.host)
        self._passed: set[tuple[str, ...]] = set()
        """Headers that were let in before: callers send the same ones again and again."""
        if self._networked:
            # Rebinding needs a name of the attacker's: neither this machine's own nor a number is one.
            self._hosts.add(socket.gethostname().lower())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            try:
                self._let_in(_headers(scope, b"host"), _headers(scope, b"origin"))
            except Forbidden as error:
                return await refuse(error, scope, receive, send)
        return await self._app(scope, receive, send)

    def _let_in(self, hosts: list[str], origins: list[str]) -> None:
        seen = (*hosts, "", *origins)
        if seen not in self._passed:
            self._check(hosts, origins)
            if len(self._passed) < MOST_REMEMBERED:
                self._passed.add(seen)

    def _check(self, hosts: list[str], origins: list[str]) -> None:
        host = hosts[0].lower() if len(hosts) == 1 else ""
        name = (_split(host)[0] or "").rstrip(".")
        if name not in self._hosts and not (_is_address(name) if self._networked else is_loopback(name)):
            raise ForeignHost(f"host {host!r} is not a name of this node; setting allowed_hosts adds names")
        for origin in origins:
            if origin.lower() not in self._origins and not _same_origin(origin.lower(), host):
                raise ForeignOrigin(
                    f"pages of {origin!r} may not call this node; see setting allowed_origins"
                )


class Authenticate:
    """Finds out who calls, and lets nobody unknown beyond the public paths."""

    def __init__(self, app: ASGIApp, keyring: Keyring) -> None:
        self._app = app
        self._keyring = keyring

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            try:
                caller = None if _is_public(scope) else await self._identify(scope)
            except TidemillError as error:
                if changes(scope) or scope["path"] != PAGE:
                    return await refuse(error, scope, receive, send)
                caller = None
            scope.setdefault("state", {})["caller"] = caller
        if scope["type"] == "websocket" and not _is_worker(scope):
            receive = self._while_known(scope, receive, send)
        return await self._app(scope, receive, send)

    def _while_known(self, scope: Scope, receive: Receive, send: Send) -> Receive:
        """A WebSocket may last for days, so its token opens each message, not only the door."""

        async def checked() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive":
                try:
                    await self._keyring.identify(_bearer(scope), changes=False)
                except TidemillError as error:
                    log.info("door.closed", code=error.code, path=scope["path"])
                    await send({"type": "websocket.close", "code": _CLOSE_POLICY, "reason": error.code})
                    return {"type": "websocket.disconnect", "code": _CLOSE_POLICY, "reason": error.code}
            return message

        return checked

    async def _identify(self, scope: Scope) -> Caller:
        return await self._keyring.identify(_bearer(scope), changes=changes(scope))


async def refuse(error: TidemillError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the error; a WebSocket is closed before it opens."""
    log.info("door.refused", code=error.code, path=scope["path"], client=(scope.get("client") or ["?"])[0])
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": _CLOSE_POLICY, "reason": error.code})
    else:
        await problem_of(scope, error)(scope, receive, send)


def _headers(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _bearer(scope: Scope) -> str | None:
    """The token of the request; text that is no bearer token stays as it is, and opens nothing."""
    given = _headers(scope, b"authorization")
    if not given:
        return None
    scheme, _, secret = given[0].partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else given[0]


def changes(scope: Scope) -> bool:
    """Whether the request may change something; a WebSocket always may."""
    return scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS


def _is_worker(scope: Scope) -> bool:
    path: str = scope["path"]
    return scope["type"] == "websocket" and (path == WORKERS or path.startswith(f"{WORKERS}/"))


def _is_public(scope: Scope) -> bool:
    path = scope["path"]
    if _is_worker(scope):
        return True
    return not changes(scope) and (path in PUBLIC or path.startswith(PUBLIC_UNDER))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _split(host: str) -> tuple[str | None, int | None]:
    """Name and port of a Host header; nothing of one that is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        plain = parts.username is None and not (parts.path or parts.query or parts.fragment)
        found = parts.hostname, parts.port
    except ValueError:
        return None, None
    return found if plain else (None, None)


def _same_origin(origin: str, host: str) -> bool:
    """Whether a page of that origin came from that host; in either scheme, as a proxy may end TLS."""
    scheme, separator, rest = origin.partition("://")
    default = {"http": 80, "https": 443}.get(scheme)
    if not separator or default is None:
        return False
    (page, page_port), (name, port) = _split(rest), _split(host)
    return page is not None and page == name and (page_port or default) == (port or default)
