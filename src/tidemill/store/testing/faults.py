"""A backend that misbehaves on command, around a real one.

It plays what a network does to a request: lose it, lose its answer, or deliver it late, after the
sender has given up. The sender sees the same thing each time: no answer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec.structs import replace

from tidemill.store.backend import Backend, OnChange
from tidemill.store.document import Claim, Collection, Document, Lease, Outcome, Query, Where, Write
from tidemill.store.errors import Unavailable

Fault: TypeAlias = Literal["request lost", "answer lost", "late", "hang"]


class FaultyBackend:
    """Does as `backend` does, except for the next write or claim after `plan`."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.capabilities = replace(backend.capabilities, bounded=False)
        self.before_reading_back: Callable[[], Awaitable[None]] | None = None
        self._planned: list[Fault] = []
        self._late: list[tuple[Sequence[Write], int]] = []

    def plan(self, *faults: Fault) -> None:
        """Let the next writes meet these faults, one each."""
        self._planned += faults

    async def write(self, writes: Sequence[Write], nonce: int) -> list[Outcome]:
        match self._next():
            case None:
                outcomes = await self.backend.write(writes, nonce)
                await self._deliver_late()
                return outcomes
            case "answer lost":
                await self.backend.write(writes, nonce)
            case "late":
                self._late.append((writes, nonce))
            case "hang":
                await asyncio.Event().wait()
            case "request lost":
                pass
        raise Unavailable("the answer was lost", maybe_applied=True)

    async def claim(self, collection: Collection, claim: Claim, nonce: int) -> list[Document]:
        match self._next():
            case None:
                return await self.backend.claim(collection, claim, nonce)
            case "answer lost":
                await self.backend.claim(collection, claim, nonce)
            case "hang":
                await asyncio.Event().wait()
            case "late" | "request lost":
                pass
        raise Unavailable("the answer was lost", maybe_applied=True)

    def _next(self) -> Fault | None:
        return self._planned.pop(0) if self._planned else None

    async def _deliver_late(self) -> None:
        late, self._late = self._late, []
        for writes, nonce in late:
            await self.backend.write(writes, nonce)

    async def open(self) -> None:
        await self.backend.open()

    async def close(self) -> None:
        await self.backend.close()

    async def prepare(self, collection: Collection) -> None:
        await self.backend.prepare(collection)

    async def get_many(self, collection: Collection, keys: Sequence[str]) -> list[Document]:
        return await self.backend.get_many(collection, keys)

    async def nonces(self, collection: Collection, keys: Sequence[str]) -> Mapping[str, tuple[int, int]]:
        if self.before_reading_back is not None:
            await self.before_reading_back()
        return await self.backend.nonces(collection, keys)

    async def find(self, collection: Collection, query: Query) -> list[Document]:
        return await self.backend.find(collection, query)

    async def count(self, collection: Collection, where: Where, limit: int) -> int:
        return await self.backend.count(collection, where, limit)

    async def claimed(self, collection: Collection, nonce: int) -> list[Document]:
        return await self.backend.claimed(collection, nonce)

    async def hold(
        self, collection: Collection, keys: Sequence[str], holder: str, ttl_ms: int
    ) -> list[Lease]:
        return await self.backend.hold(collection, keys, holder, ttl_ms)

    async def renew(self, collection: Collection, terms: Mapping[str, int], ttl_ms: int) -> list[Lease]:
        return await self.backend.renew(collection, terms, ttl_ms)

    async def release(self, collection: Collection, terms: Mapping[str, int]) -> None:
        await self.backend.release(collection, terms)

    async def now(self) -> int:
        return await self.backend.now()

    async def oldest_writer(self) -> str:
        return await self.backend.oldest_writer()

    async def close_to_older(self, release: str) -> None:
        await self.backend.close_to_older(release)

    def subscribe(self, channels: Sequence[str], on_change: OnChange) -> None:
        self.backend.subscribe(channels, on_change)

    def announce(self, channels: Sequence[str]) -> None:
        self.backend.announce(channels)
