"""Whether the process lives, and whether the node is ready for work."""

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse

import tidemill
from tidemill.app.http.context import NodeContext


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/healthz")
    async def healthz() -> dict[str, Any]:
        """The process answers. Says nothing about the store."""
        return {"service": "tidemill", "status": "ok", "release": tidemill.__version__}

    @router.get("/readyz")
    async def readyz() -> JSONResponse:
        """200 when the node is ready; else 503 with the reasons in plain words."""
        problems = context.problems()
        status = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
        return JSONResponse({"ready": not problems, "problems": problems}, status)

    return router
