"""One stream of what changes, as server-sent events."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import require
from tidemill.app.http.feed import Feed
from tidemill.app.http.leaving import until
from tidemill.app.tokens import Role


def routes(context: NodeContext) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["events"], dependencies=[require(Role.VIEWER)])
    feed = Feed(context)

    @router.get("/events", response_class=EventSourceResponse)
    async def get_events(
        request: Request, last_event_id: Annotated[int | None, Header(ge=0)] = None
    ) -> AsyncIterator[ServerSentEvent]:
        """Tasks, queues, schedules and nodes as they change: events `task`, `queue`, `schedule` and `node`.

        A `hello` comes first. `more` says that more has changed than is told, so that whoever shows all of it
        should look. A comment comes every 15 s. Whoever sends Last-Event-ID is told what changed since.
        """
        newest = 0
        async for event in until(request.app.state.leaving, feed.listen(last_event_id)):
            newest = max(newest, event.revision)
            yield ServerSentEvent(event=event.name, data=event.body, id=str(newest))

    return router
