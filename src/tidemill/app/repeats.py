"""Requests that may come twice: what was asked under an Idempotency-Key, remembered for a while."""

import hashlib
from typing import Any

import msgspec

from tidemill.store import Collection, Conflict, Store, Write, lt

REPEATS = Collection("repeats", fields=(("at", "integer"),), indexes=(("at",),))
KEPT_MS = 7 * 86_400_000

_FORGOTTEN = 10
"""How many that are old are forgotten for each new one: more than come."""


async def remember(store: Store, key: str, asked: Any, now: int) -> bool:
    """Whether this is the first request of that key, or asks for the same as the first; else False."""
    digest = hashlib.sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()
    try:
        await store.create(REPEATS, key, {"at": now, "digest": digest})
    except Conflict:
        found = await store.get(REPEATS, key)
        return found is None or found.body["digest"] == digest
    old = await store.find(REPEATS, lt("at", now - KEPT_MS), limit=_FORGOTTEN, fields=())
    await store.write([Write(REPEATS, one.key, None, one.revision) for one in old.documents])
    return True
