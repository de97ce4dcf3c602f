"""Documents in this process: for unit tests, and as the world of the simulator.

A `MemoryServer` stands for the database; any number of `MemoryBackend`s are its clients. Every act
runs to its end without an await, so acts are atomic on one event loop.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from tidemill.store.backend import OnChange
from tidemill.store.check import decode_body, encode_body, values_of
from tidemill.store.cursor import value_of
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
    Query,
    Scalar,
    Term,
    Where,
    Write,
)
from tidemill.store.release import FIRST_RELEASE, newer, refuse_if_older


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryServer:
    """The documents, the counter that revisions and terms are drawn from, and the clock."""

    def __init__(self, now_ms: Callable[[], int] = _wall_ms) -> None:
        self.now_ms = now_ms
        self.oldest_writer = FIRST_RELEASE
        self.documents: dict[str, dict[str, Document]] = {}
        self.nonces: dict[tuple[str, str], int] = {}
        self.listeners: dict[str, list[OnChange]] = {}
        self._drawn = 0

    def draw(self) -> int:
        """The next number, never drawn before."""
        self._drawn += 1
        return self._drawn

    def table(self, collection: Collection) -> dict[str, Document]:
        return self.documents.setdefault(collection.name, {})

    def put(self, collection: Collection, document: Document, nonce: int) -> None:
        self.table(collection)[document.key] = document
        self.nonces[collection.name, document.key] = nonce

    def announce(self, channels: Sequence[str]) -> None:
        for name in channels:
            for on_change in self.listeners.get(name, []):
                on_change(name)

    def stands(self, fence: Fence) -> bool:
        """Whether the fence's term is the document's and has not run out."""
        lease = self.table(fence.collection).get(fence.key)
        return lease is not None and lease.term == fence.term and lease.expire > self.now_ms()


class MemoryBackend:
    """A client of a `MemoryServer`."""

    capabilities = Capabilities(watch="push", server_time=True, shared="process")

    def __init__(self, server: MemoryServer, release: str) -> None:
        self._server = server
        self._release = release
        self._listening: list[tuple[str, OnChange]] = []

    async def open(self) -> None:
        refuse_if_older(self._release, self._server.oldest_writer)

    async def close(self) -> None:
        for name, on_change in self._listening:
            self._server.listeners[name].remove(on_change)
        self._listening.clear()

    async def prepare(self, collection: Collection) -> None:
        self._server.table(collection)

    async def get_many(self, collection: Collection, keys: Sequence[str]) -> list[Document]:
        table = self._server.table(collection)
        return [_copy(table[key]) for key in dict.fromkeys(keys) if key in table]

    async def write(self, writes: Sequence[Write], nonce: int) -> list[Outcome]:
        bodies = [None if write.body is None else _stored(write.collection, write.body) for write in writes]
        return [self._apply(write, body, nonce) for write, body in zip(writes, bodies, strict=True)]

    async def nonces(self, collection: Collection, keys: Sequence[str]) -> Mapping[str, tuple[int, int]]:
        table = self._server.table(collection)
        return {
            key: (table[key].revision, self._server.nonces[collection.name, key])
            for key in keys
            if key in table
        }

    async def find(self, collection: Collection, query: Query) -> list[Document]:
        ordered = _sorted(self._matching(collection, query.where), query.sort)
        if query.after is not None:
            rank = _rank(query.sort)
            last = rank(query.after)
            ordered = [found for found in ordered if rank(_values(found, query.sort)) > last]
        return [_copy(found, query.fields) for found in ordered[: query.limit]]

    async def count(self, collection: Collection, where: Where, limit: int) -> int:
        return min(limit, len(self._matching(collection, where)))

    async def claim(self, collection: Collection, claim: Claim, nonce: int) -> list[Document]:
        now = self._server.now_ms()
        room = [cap.limit - len(self._matching(collection, cap.where)) for cap in claim.caps]
        n = max(0, min([claim.n, *room]))
        free = (found for found in self._matching(collection, claim.where) if found.expire <= now)
        taken = _sorted(free, claim.sort)[:n]
        return [self._take(collection, document, claim, nonce) for document in taken]

    async def claimed(self, collection: Collection, nonce: int) -> list[Document]:
        table, nonces = self._server.table(collection), self._server.nonces
        return [_copy(found) for key, found in table.items() if nonces[collection.name, key] == nonce]

    async def hold(
        self, collection: Collection, keys: Sequence[str], holder: str, ttl_ms: int
    ) -> list[Lease]:
        return [self._hold(collection, key, holder, ttl_ms) for key in keys]

    async def renew(self, collection: Collection, terms: Mapping[str, int], ttl_ms: int) -> list[Lease]:
        table, now = self._server.table(collection), self._server.now_ms()
        for key, term in terms.items():
            held = table.get(key)
            if held is not None and held.term == term and held.expire > now:
                table[key] = replace(held, expire=max(held.expire, now + ttl_ms))
        return [_lease(table[key], now) for key in terms if key in table]

    async def release(self, collection: Collection, terms: Mapping[str, int]) -> None:
        table = self._server.table(collection)
        for key, term in terms.items():
            if key in table and table[key].term == term:
                table[key] = replace(table[key], expire=0)

    async def now(self) -> int:
        return self._server.now_ms()

    async def oldest_writer(self) -> str:
        return self._server.oldest_writer

    async def close_to_older(self, release: str) -> None:
        self._server.oldest_writer = newer(release, self._server.oldest_writer)

    def subscribe(self, channels: Sequence[str], on_change: OnChange) -> None:
        for name in channels:
            self._server.listeners.setdefault(name, []).append(on_change)
            self._listening.append((name, on_change))

    def announce(self, channels: Sequence[str]) -> None:
        self._server.announce(channels)

    def _matching(self, collection: Collection, where: Where) -> list[Document]:
        return [found for found in self._server.table(collection).values() if _meets(found, where)]

    def _apply(self, write: Write, body: Body | None, nonce: int) -> Outcome:
        server, table = self._server, self._server.table(write.collection)
        before = table.get(write.key)
        if write.fence is not None and not server.stands(write.fence):
            return Lost()
        if not _expected(before, write.expect):
            return Lost()
        if body is None:
            del table[write.key]
            return Done(0)
        base = before or Document(write.key, {}, 0)
        expire = 0 if write.release else base.expire
        after = replace(base, body=body, revision=server.draw(), expire=expire)
        server.put(write.collection, after, nonce)
        return Done(table[write.key].revision)

    def _take(self, collection: Collection, document: Document, claim: Claim, nonce: int) -> Document:
        server = self._server
        body = {**document.body, **dict(claim.set)}
        taken = Document(
            document.key,
            {name: value for name, value in body.items() if value is not None or name in document.body},
            server.draw(),
            server.draw(),
            claim.holder,
            server.now_ms() + claim.ttl_ms,
        )
        taken = replace(taken, body=_stored(collection, taken.body))
        server.put(collection, taken, nonce)
        return _copy(taken)

    def _hold(self, collection: Collection, key: str, holder: str, ttl_ms: int) -> Lease:
        server, now = self._server, self._server.now_ms()
        before = server.table(collection).get(key)
        if before is None:
            before = Document(key, {}, server.draw())
            server.put(collection, before, 0)
        if before.expire > now and before.holder != holder:
            return _lease(before, now)
        term = before.term if before.expire > now else server.draw()
        expire = max(before.expire, now + ttl_ms) if before.expire > now else now + ttl_ms
        held = replace(before, term=term, holder=holder, expire=expire)
        server.table(collection)[key] = held
        return _lease(held, now)


def _lease(document: Document, now: int) -> Lease:
    return Lease(document.key, document.holder, document.term, document.expire, now)


def _expected(before: Document | None, expect: int | Term | None) -> bool:
    if before is None or expect is None:
        return before is None and expect is None
    return before.term == expect.number if isinstance(expect, Term) else before.revision == expect


def _stored(collection: Collection, body: Body) -> Body:
    """What the body is once it has been through JSON and lost its empty declared fields."""
    declared = {name for name, _ in collection.fields}
    kept = {name: value for name, value in body.items() if value is not None or name not in declared}
    return decode_body(encode_body(kept))


def _copy(document: Document, fields: Iterable[str] | None = None) -> Document:
    body = decode_body(encode_body(document.body))
    if fields is not None:
        body = {name: body[name] for name in fields if name in body}
    return replace(document, body=body)


def _meets(document: Document, where: Where) -> bool:
    return all(_holds(condition, value_of(document, condition.field)) for condition in where)


def _holds(condition: Condition, value: Any) -> bool:
    wanted: Any = condition.value
    match condition.operator:
        case "=":
            return bool(value == wanted)
        case "in":
            return value is not None and value in values_of(condition)
    if value is None or wanted is None:
        return False
    match condition.operator:
        case "<":
            return bool(value < wanted)
        case "<=":
            return bool(value <= wanted)
        case ">":
            return bool(value > wanted)
        case ">=":
            return bool(value >= wanted)


def _values(document: Document, sort: Sequence[str]) -> tuple[Scalar, ...]:
    return (*(value_of(document, entry.removeprefix("-")) for entry in sort), document.key)


def _sorted(documents: Iterable[Document], sort: Sequence[str]) -> list[Document]:
    """By the fields of `sort`, then by key."""
    ordered = sorted(documents, key=attrgetter("key"))
    for entry in reversed(sort):
        field = entry.removeprefix("-")
        ordered.sort(key=partial(_by, field), reverse=entry != field)
    return ordered


def _by(field: str, document: Document) -> tuple[bool, Any]:
    return _orderable(value_of(document, field))


def _orderable(value: Any) -> tuple[bool, Any]:
    """Missing values before all others."""
    return (value is not None, value if value is not None else 0)


class _Descending:
    """A value that sorts the other way round."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: "_Descending") -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(other.value == self.value)

    def __hash__(self) -> int:
        return hash(self.value)


def _rank(sort: Sequence[str]) -> Callable[[Sequence[Scalar]], tuple[Any, ...]]:
    def rank(values: Sequence[Scalar]) -> tuple[Any, ...]:
        parts: list[Any] = []
        for entry, value in zip((*sort, "key"), values, strict=True):
            part = _orderable(value)
            parts.append(_Descending(part) if entry.startswith("-") else part)
        return tuple(parts)

    return rank
