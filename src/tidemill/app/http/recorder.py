"""Puts every change that HTTP asks for into the audit log."""

from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidemill.app.audit import Entry, draft
from tidemill.app.http.door import SAFE_METHODS, caller_of, refuse
from tidemill.store import Store, StoreError
from tidemill.tasks.storetime import StoreTime


class Recorder:
    """Writes the entry before the route runs and completes it before the answer leaves.

    When the entry cannot be written, the route does not run and the answer is the store's error. Routes for
    which `writes_own` is so see to the first part themselves.
    """

    def __init__(self, app: ASGIApp, store: Store, writes_own: Callable[[Scope], bool]) -> None:
        self._app = app
        self._store = store
        self._writes_own = writes_own
        self._time = StoreTime(store)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = caller_of(scope) if scope["type"] == "http" else None
        if caller is None or scope["method"] in SAFE_METHODS:
            return await self._app(scope, receive, send)
        try:
            now = await self._time.now()
            entry = draft(self._store, caller.name, scope["method"], scope["path"], now)
            if not self._writes_own(scope):
                await entry.write()
        except StoreError as error:
            return await refuse(error, scope, receive, send)
        scope["state"]["audit"] = entry
        return await self._run(entry, scope, receive, send)

    async def _run(self, entry: Entry, scope: Scope, receive: Receive, send: Send) -> None:
        completed = False

        async def send_recorded(message: Message) -> None:
            nonlocal completed
            if message["type"] == "http.response.start" and not completed:
                completed = True
                status = message["status"]
                await entry.complete(f"{'done' if status < 400 else 'failed'}: {status}")
            await send(message)

        try:
            await self._app(scope, receive, send_recorded)
        except BaseException as error:
            if not completed:
                await entry.complete(f"failed: {type(error).__name__}")
            raise


def describe(scope: Scope, detail: str) -> None:
    """Let a route say in the audit log what it changed."""
    entry = entry_of(scope)
    if entry is not None:
        entry.detail = detail


def entry_of(scope: Scope) -> Entry | None:
    """The entry of a request; None for one that changes nothing."""
    entry: Entry | None = scope.get("state", {}).get("audit")
    return entry
