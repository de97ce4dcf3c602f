"""Commands that are run in the process of a test, and what they leave in the store."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from tidemill.app.audit import list_entries
from tidemill.store import Body, open_store

STORE = "sqlite:///.tidemill/tidemill.db"


@dataclass(frozen=True, slots=True)
class Result:
    code: int
    out: str
    err: str


Run = Callable[..., Result]


def stored(read: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    """What `read` sees in the default store."""

    async def reading() -> Any:
        async with open_store(STORE) as store:
            return await read(store)

    return asyncio.run(reading())


def audit_entries() -> list[Body]:
    return [document.body for document in stored(list_entries).documents]
