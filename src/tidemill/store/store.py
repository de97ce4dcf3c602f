"""`Store`: the verbs that the rest of Tidemill speaks, on any backend.

It adds to a backend what must be the same everywhere: checks of what goes in, a time limit on every
call, the settling of writes whose answer was lost, cursors, wake-ups, and counts of what happened.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self, TypeVar

from msgspec import Struct

from tidemill.base.ids import new_nonce
from tidemill.store import check
from tidemill.store.backend import Backend
from tidemill.store.cursor import decode_cursor, encode_cursor
from tidemill.store.document import (
    Body,
    Capabilities,
    Claim,
    Collection,
    Condition,
    Document,
    Done,
    Fence,
    Lease,
    Lost,
    Outcome,
    Page,
    Query,
    Term,
    Unknown,
    Write,
)
from tidemill.store.errors import Conflict, Fenced, OutcomeUnknown, Unavailable
from tidemill.store.settle import settle
from tidemill.store.watch import Watch, Watchers

T = TypeVar("T")


class Statistics(Struct, frozen=True):
    """Counts since the store was opened. `calls` are round trips to the database."""

    calls: int
    conflicts: int
    unknown: int
    settled: int
    unavailable: int


class Store:
    """Versioned documents in a database that others write to as well.

    Every change is compare-and-set. A single write returns when it is durable, and raises `Conflict`
    when it lost or `OutcomeUnknown` when nobody can tell; `write` returns these as values. No call
    takes longer than `timeout_s`, or twice that where the fate of a write has to be read back.
    """

    def __init__(
        self, backend: Backend, *, timeout_s: float = 10.0, source: random.Random | None = None
    ) -> None:
        self._backend = backend
        self._timeout_s = timeout_s
        self._nonce: Callable[[], int] = new_nonce if source is None else lambda: new_nonce(source)
        self._prepared: set[Collection] = set()
        self._watchers = Watchers()
        self._closed = False
        self._calls = self._conflicts = self._unknown = self._settled = self._unavailable = 0

    @property
    def capabilities(self) -> Capabilities:
        return self._backend.capabilities

    async def open(self) -> Self:
        await self._call(self._backend.open)
        return self

    async def close(self) -> None:
        """Let go of the database. A second call changes nothing."""
        self._closed = True
        await self._backend.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Reading

    async def get(self, collection: Collection, key: str) -> Document | None:
        """The document as it is now, or None."""
        return (await self.get_many(collection, [key])).get(key)

    async def get_many(self, collection: Collection, keys: Sequence[str]) -> dict[str, Document]:
        """Those of the documents that exist, by key."""
        for key in keys:
            check.check_key(key)
        await self._prepare(collection)
        found = await self._call(lambda: self._backend.get_many(collection, keys))
        return {document.key: document for document in found}

    async def find(
        self,
        collection: Collection,
        *where: Condition,
        sort: Sequence[str] = (),
        limit: int = 100,
        cursor: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> Page:
        """Documents that meet all conditions, in order, a page at a time.

        A cursor goes on where its page ended, whatever was written in between: it neither repeats nor
        skips a document that did not change. With `fields`, bodies hold just those and the sort's.
        """
        after = None if cursor is None else decode_cursor(cursor, len(sort))
        names = None if fields is None else (*fields, *(entry.removeprefix("-") for entry in sort))
        query = Query(tuple(where), tuple(sort), limit, after, names)
        check.check_query(collection, query)
        await self._prepare(collection)
        found = await self._call(lambda: self._backend.find(collection, query))
        return Page(found, encode_cursor(found[-1], query.sort) if len(found) == limit else None)

    async def count(self, collection: Collection, *where: Condition, limit: int = check.FIND_LIMIT) -> int:
        """How many documents meet all conditions; `limit` stands for that many or more."""
        check.check_where(collection, where)
        await self._prepare(collection)
        return await self._call(lambda: self._backend.count(collection, where, limit))

    async def now(self) -> int:
        """The store's time in milliseconds: the only clock that instants are compared on."""
        return await self._call(self._backend.now)

    # Writing

    async def create(
        self, collection: Collection, key: str, body: Body, *, fence: Fence | None = None
    ) -> int:
        """Write a document that must not exist yet; return its revision."""
        return await self._one(Write(collection, key, body, None, fence))

    async def replace(
        self,
        collection: Collection,
        key: str,
        body: Body,
        *,
        expect: int | Term,
        fence: Fence | None = None,
        release: bool = False,
    ) -> int:
        """Write over a document that must be at that revision, or held under that term.

        With `release`, let go of it in the same act.
        """
        return await self._one(Write(collection, key, body, expect, fence, release))

    async def delete(
        self, collection: Collection, key: str, *, expect: int | Term, fence: Fence | None = None
    ) -> None:
        """Remove a document that must be at that revision, or held under that term."""
        await self._one(Write(collection, key, None, expect, fence))

    async def write(self, writes: Sequence[Write]) -> list[Outcome]:
        """Do many writes in one go. Each is done or lost on its own; outcomes come in order."""
        if not writes:
            return []
        await self._check(writes)
        nonce = self._nonce()
        try:
            outcomes = await self._call(lambda: self._backend.write(writes, nonce), writes=True)
        except Unavailable as error:
            if not error.maybe_applied:
                raise
            outcomes = await self._call(lambda: settle(self._backend, writes, nonce), settles=True)
            self._settled += sum(not isinstance(outcome, Unknown) for outcome in outcomes)
        self._count(outcomes)
        self._changed(dict.fromkeys([write.collection.channel(write.about) for write in writes]))
        return outcomes

    async def claim(self, collection: Collection, claim: Claim) -> list[Document]:
        """Take up to `claim.n` matching documents, within every cap, in one atomic act.

        When the answer is lost, the documents that were taken are found again by their nonce; when
        none are found, the claim may still be under way and `OutcomeUnknown` is raised. Such
        documents are held until their `expire`, and carry the claim's holder. Watchers are not told of a
        claim, which leaves others less to do; what comes of it, they are.
        """
        check.check_claim(collection, claim)
        await self._prepare(collection)
        nonce = self._nonce()
        try:
            taken = await self._call(lambda: self._backend.claim(collection, claim, nonce), writes=True)
        except Unavailable as error:
            if not error.maybe_applied:
                raise
            taken = await self._call(lambda: self._backend.claimed(collection, nonce), settles=True)
            if not taken:
                self._unknown += 1
                raise OutcomeUnknown(f"a claim on {collection.name} may still take hold") from error
            self._settled += 1
        return taken

    # Leases

    async def hold(
        self, collection: Collection, keys: Sequence[str], holder: str, ttl_ms: int
    ) -> dict[str, Lease]:
        """Take or keep hold of each document; say who has each now.

        What `holder` already has is extended under the same term, what nobody has is taken under a new
        one, and what others have is left alone. Expiry is computed and compared by the store's clock,
        and never made shorter. A repeat is harmless, so a lost answer needs no settling.
        """
        for key in keys:
            check.check_key(key)
        check.check_hold(holder, ttl_ms)
        await self._prepare(collection)
        leases = await self._call(lambda: self._backend.hold(collection, keys, holder, ttl_ms))
        return {lease.key: lease for lease in leases}

    async def renew(self, collection: Collection, terms: Mapping[str, int], ttl_ms: int) -> dict[str, Lease]:
        """Extend those that still stand under their term; one that expired is lost, even if untaken."""
        check.check_hold("renew", ttl_ms)
        await self._prepare(collection)
        leases = await self._call(lambda: self._backend.renew(collection, terms, ttl_ms))
        return {lease.key: lease for lease in leases}

    async def release(self, collection: Collection, terms: Mapping[str, int]) -> None:
        """Let go of those that still stand under their term, so that others need not wait."""
        await self._prepare(collection)
        await self._call(lambda: self._backend.release(collection, terms))
        self._changed([collection.channel()])

    # Waiting and watching

    @asynccontextmanager
    async def watch(self, collection: Collection, *about: str, poll_s: float = 30.0) -> AsyncIterator[Watch]:
        """Wake when the collection may have changed; with topics, not for changes `about` other ones.

        A hint and no more: it may come late, without cause, or after `poll_s` where the database has
        not said anything; after each one, read what matters.
        """
        for topic in about:
            check.check_topic(collection, topic)
        channels = [collection.channel(), *map(collection.channel, about or collection.topics)]
        await self._prepare(collection)
        if fresh := self._watchers.not_heard_yet(channels):
            self._backend.subscribe(fresh, self._watchers.notify)
        with self._watchers.watching(channels, poll_s) as watch:
            yield watch

    # Releases

    async def oldest_writer(self) -> str:
        return await self._call(self._backend.oldest_writer)

    async def close_to_older(self, release: str) -> None:
        """Let no release older than this one open the store again. Never goes back."""
        await self._call(lambda: self._backend.close_to_older(release))

    def statistics(self) -> Statistics:
        return Statistics(self._calls, self._conflicts, self._unknown, self._settled, self._unavailable)

    # Inside

    async def _one(self, write: Write) -> int:
        [outcome] = await self.write([write])
        match outcome:
            case Done(revision):
                return revision
            case Lost():
                raise await self._explain(write)
            case Unknown():
                raise OutcomeUnknown(f"whether {write.key!r} was written cannot be told; read it again")

    async def _explain(self, write: Write) -> Conflict:
        """Say why a write lost, from what lies there now. Only the message depends on the answer."""
        where = f"{write.collection.name}/{write.key}"
        if write.fence is not None:
            lease = await self.get(write.fence.collection, write.fence.key)
            if lease is None or lease.term != write.fence.term or lease.expire <= await self.now():
                return Fenced(f"{where}: term {write.fence.term} of {write.fence.key!r} has passed")
        found = await self.get(write.collection, write.key)
        if found is None:
            return Conflict(f"{where} does not exist")
        if isinstance(write.expect, Term):
            return Fenced(f"{where}: term {write.expect.number} has passed, it is at {found.term}")
        if write.expect is None:
            return Conflict(f"{where} exists already")
        return Conflict(f"{where} is at revision {found.revision}, not {write.expect}")

    async def _check(self, writes: Sequence[Write]) -> None:
        """Refuse what cannot be stored, and make sure that the collections are there."""
        prepared: Collection | None = None
        for write in writes:
            check.check_write(write)
            if write.collection is not prepared:
                prepared = write.collection
                await self._prepare(prepared)
            if write.fence is not None:
                await self._prepare(write.fence.collection)

    async def _prepare(self, collection: Collection) -> None:
        if collection not in self._prepared:
            check.check_collection(collection)
            await self._call(lambda: self._backend.prepare(collection))
            self._prepared.add(collection)

    async def _call(
        self, request: Callable[[], Awaitable[T]], *, writes: bool = False, settles: bool = False
    ) -> T:
        if self._closed:
            raise Unavailable("this store has been closed")
        self._calls += 1
        try:
            if self._backend.capabilities.bounded:
                return await request()
            async with asyncio.timeout(self._timeout_s):
                return await request()
        except TimeoutError as error:
            self._unavailable += 1
            if settles:
                raise OutcomeUnknown("the store stopped answering before a write's fate was known") from error
            raise Unavailable(f"no answer within {self._timeout_s:g} s", maybe_applied=writes) from error
        except Unavailable as error:
            self._unavailable += 1
            if settles:
                raise OutcomeUnknown("the store went away before a write's fate was known") from error
            raise

    def _count(self, outcomes: Sequence[Outcome]) -> None:
        if set(map(type, outcomes)) == {Done}:
            return
        self._conflicts += sum(isinstance(outcome, Lost) for outcome in outcomes)
        self._unknown += sum(isinstance(outcome, Unknown) for outcome in outcomes)

    def _changed(self, channels: Iterable[str]) -> None:
        changed = tuple(channels)
        for name in changed:
            self._watchers.notify(name)
        self._backend.announce(changed)
