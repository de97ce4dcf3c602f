"""Cluster-wide settings, and what this node made of them."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Request, Response

from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.http.problem import PreconditionFailed, PreconditionRequired
from tidemill.app.http.recorder import describe
from tidemill.app.settings_store import ClusterSettings, read_cluster_settings, write_cluster_settings
from tidemill.app.tokens import Role
from tidemill.store import Conflict


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["settings"])

    @router.get("/settings", dependencies=[require(Role.VIEWER)])
    async def get_settings(response: Response) -> dict[str, Any]:
        """`cluster` is the store's document, whose revision is the ETag; `effective` is this node's."""
        return _answer(context, await read_cluster_settings(context.store), response)

    @router.put("/settings", dependencies=[require(Role.ADMIN)])
    async def put_settings(
        request: Request,
        response: Response,
        values: Annotated[dict[str, Any], Body()],
        if_match: Annotated[str | None, Header()] = None,
    ) -> dict[str, Any]:
        """Replace the cluster-wide settings, if they are still as in `If-Match`. Nodes heed them at start."""
        expect = _revision(if_match)
        try:
            written = await write_cluster_settings(context.store, values, expect=expect, origin="request")
        except Conflict as error:
            raise PreconditionFailed("the settings have changed since; get them again") from error
        describe(request.scope, ", ".join(f"{name}={value}" for name, value in written.values.items()))
        return _answer(context, written, response)

    return router


def _answer(context: NodeContext, cluster: ClusterSettings, response: Response) -> dict[str, Any]:
    response.headers["ETag"] = f'"{cluster.revision}"'
    settings = context.settings
    effective = {
        name: {"value": value, "origin": settings.origin(name)} for name, value in settings.shown().items()
    }
    return {"cluster": cluster.values, "effective": effective}


def _revision(if_match: str | None) -> int:
    if if_match is None:
        raise PreconditionRequired("say in If-Match which ETag of the settings this change is based on")
    text = if_match.strip().strip('"')
    if not text.isascii() or not text.isdigit():
        raise PreconditionFailed(f"If-Match {if_match!r} is not an ETag of the settings")
    return int(text)
