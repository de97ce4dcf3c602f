"""The short way for what is called most: jobs that are submitted.

The router, with its dozens of routes, takes as long as the job itself. The routes are there all the same: for
the description of the interface, and for requests with an Idempotency-Key.
"""

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tidemill.app.http.context import NodeContext
from tidemill.app.http.door import admit
from tidemill.app.http.problem import problem_of
from tidemill.app.http.recorder import entry_of
from tidemill.app.http.routes.job_submission import Arrival
from tidemill.app.tokens import Role
from tidemill.base.errors import TidemillError
from tidemill.tasks.queue import DEFAULT

SUBMIT = "/api/jobs/submit"


class Shortcut:
    """Answers submissions just as their routes do."""

    def __init__(self, app: ASGIApp, context: NodeContext) -> None:
        self._app = app
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        queue = queue_of(scope)
        if queue is None:
            return await self._app(scope, receive, send)
        try:
            admit(scope, Role.PRODUCER, Role.OPERATOR)
            request = Request(scope, receive, send)
            answer = await Arrival(self._context, request, queue, None).answer(entry_of(scope))
        except TidemillError as error:
            answer = problem_of(scope, error)
        return await answer(scope, receive, send)


def queue_of(scope: Scope) -> str | None:
    """The queue of a job that is submitted this way; None for any other request."""
    if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].startswith(SUBMIT):
        return None
    if any(name == b"idempotency-key" for name, _ in scope["headers"]):
        return None
    rest: str = scope["path"][len(SUBMIT) :]
    if not rest:
        return DEFAULT
    return rest[1:] if rest[0] == "/" and len(rest) > 1 and "/" not in rest[1:] else None
