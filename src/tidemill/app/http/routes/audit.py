"""The audit log, newest first."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from tidemill.app.audit import list_entries
from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.tokens import Role


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["audit"], dependencies=[require(Role.ADMIN)])

    @router.get("/audit")
    async def get_audit(
        limit: Annotated[int, Query(ge=1, le=1000)] = 100, cursor: str | None = None
    ) -> dict[str, Any]:
        """A page of entries; `next_cursor` goes on where it ends, and is null at the end."""
        page = await list_entries(context.store, limit=limit, cursor=cursor)
        entries = [{"id": document.key} | document.body for document in page.documents]
        return {"entries": entries, "next_cursor": page.cursor}

    return router
