"""A path prefix: the node behind a proxy that serves it below another path."""

from starlette.types import ASGIApp, Receive, Scope, Send


class Prefix:
    """Takes the prefix off the paths of requests that have it; a proxy may have done so already."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and _is_below(scope["path"], self._prefix):
            path = scope["path"][len(self._prefix) :] or "/"
            scope = {**scope, "path": path, "raw_path": path.encode()}
        await self._app(scope, receive, send)


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")
