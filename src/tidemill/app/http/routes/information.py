"""What a client may want to know of this node before it asks for anything else."""

from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import iter_route_contexts

import tidemill
from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.tokens import Role

REFRESH_MS = 30_000
"""How often a dashboard should look when nothing tells it of changes."""


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["health"], dependencies=[require(Role.VIEWER)])

    @router.get("/info")
    async def get_info(request: Request) -> dict[str, Any]:
        """The release, the kind of store, the routes by verb, and what a dashboard should do."""
        settings = context.settings
        return {
            "release": tidemill.__version__,
            "store": urlsplit(settings.store).scheme,
            "routes": routes_by_verb(request.app),
            "web_extensions": list(settings.web_extensions),
            "dashboard": {"refresh_ms": REFRESH_MS, "live_window_ms": round(settings.ttl_s * 1000)},
        }

    return router


def routes_by_verb(app: FastAPI) -> dict[str, list[str]]:
    """The paths that each verb is understood on."""
    verbs: dict[str, set[str]] = {}
    for route in iter_route_contexts(app.routes):
        for verb in route.methods or () if hasattr(route, "dependant") else ():
            verbs.setdefault(verb, set()).add(route.path_format or "")
    return {verb: sorted(paths) for verb, paths in sorted(verbs.items())}
