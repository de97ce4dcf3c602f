"""The values that cross the seam: collections, documents, writes, conditions, leases.

A document is a JSON object under a key in a collection, with four facts beside its body:

revision   drawn anew at every write; the base of compare-and-set
term       drawn anew whenever somebody takes hold of the document; the base of fencing
holder     who has hold of it, or None
expire     when that hold ends, in the store's own milliseconds; 0 when let go

Revisions and terms only grow, and a document never has one twice, not even after it was deleted and
made anew. So they also tell one life of a document from the next. What is written or claimed in one act
may share a number.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

# The values that come by the hundred are left out of Python's garbage collection (`gc=False`): they hold
# JSON and each other, and so are never part of a cycle.

Body: TypeAlias = dict[str, Any]
"""A JSON object. In a declared field, None and absent are the same, and read back as absent."""

Scalar: TypeAlias = str | int | float | None
FieldType: TypeAlias = Literal["text", "integer", "real"]

FACTS: Mapping[str, FieldType] = {
    "key": "text",
    "revision": "integer",
    "term": "integer",
    "holder": "text",
    "expire": "integer",
}
"""What a condition or a sort may name besides the declared fields."""


class Collection(Struct, frozen=True, cache_hash=True):
    """A named set of documents, and the fields that can be searched, sorted and set by `claim`.

    Fields and indexes may be added from one release to the next; a field that older releases already
    write as part of the body may not become a declared one without closing the store to them. A sparse
    index holds those documents alone that have its first field, and costs the others nothing; it serves
    whoever asks for values of that field. Topics are what a write may say that it is about, so that those
    who watch for other changes sleep on.
    """

    name: str
    fields: tuple[tuple[str, FieldType], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    sparse: tuple[tuple[str, ...], ...] = ()
    topics: tuple[str, ...] = ()

    def channel(self, topic: str | None = None) -> str:
        """The name under which changes about that are told."""
        return self.name if topic is None else f"{self.name}:{topic}"

    def type_of(self, field: str) -> FieldType | None:
        """The declared type of a field or fact, or None when it cannot be searched."""
        return FACTS.get(field) or dict(self.fields).get(field)


class Document(Struct, frozen=True, gc=False):
    """A document as it was at one moment. The body is the caller's own copy."""

    key: str
    body: Body
    revision: int
    term: int = 0
    holder: str | None = None
    expire: int = 0


class Term(Struct, frozen=True, gc=False):
    """The expectation that a document is still held under this term, whatever its revision."""

    number: int


class Fence(Struct, frozen=True):
    """The lease under which a write is made: refused unless that term still stands, unexpired."""

    collection: Collection
    key: str
    term: int


class Write(Struct, frozen=True, gc=False):
    """One change to one document.

    `expect=None` creates; a number replaces or deletes at just that revision; a `Term` replaces or
    deletes what is still held under it. `body=None` deletes. With a `fence`, the write also needs
    that other document's term to stand. `release` lets go of the document in the same act. `about` is
    the topic that watchers are told; without one, all of them are.
    """

    collection: Collection
    key: str
    body: Body | None
    expect: int | Term | None
    fence: Fence | None = None
    release: bool = False
    about: str | None = None


class Done(Struct, frozen=True, gc=False):
    """The write happened. `revision` is the document's new one; 0 after a delete."""

    revision: int


class Lost(Struct, frozen=True):
    """The write did not happen: the expectation or the fence did not hold."""


class Unknown(Struct, frozen=True):
    """The write may have happened. Read the document before deciding anything."""


Outcome: TypeAlias = Done | Lost | Unknown


class Lease(Struct, frozen=True):
    """Who has hold of a document and until when, as the store saw it at its own time `now`."""

    key: str
    holder: str | None
    term: int
    expire: int
    now: int

    def held_by(self, holder: str) -> bool:
        """Whether `holder` had it at `now`."""
        return self.holder == holder and self.expire > self.now


Operator: TypeAlias = Literal["=", "<", "<=", ">", ">=", "in"]


class Condition(Struct, frozen=True):
    """`field operator value`; a `Where` is a sequence of them that must all hold.

    `=` with None finds documents without the field. Ranges never match a missing field.
    """

    field: str
    operator: Operator
    value: Scalar | tuple[Scalar, ...]


Where: TypeAlias = Sequence[Condition]


def eq(field: str, value: Scalar) -> Condition:
    return Condition(field, "=", value)


def one_of(field: str, values: Sequence[Scalar]) -> Condition:
    return Condition(field, "in", tuple(values))


def lt(field: str, value: Scalar) -> Condition:
    return Condition(field, "<", value)


def le(field: str, value: Scalar) -> Condition:
    return Condition(field, "<=", value)


def gt(field: str, value: Scalar) -> Condition:
    return Condition(field, ">", value)


def ge(field: str, value: Scalar) -> Condition:
    return Condition(field, ">=", value)


class Query(Struct, frozen=True):
    """What `find` looks for. `sort` names fields, with a leading `-` for descending; documents that
    lack the field come first in ascending order and last in descending; ties go by key."""

    where: tuple[Condition, ...] = ()
    sort: tuple[str, ...] = ()
    limit: int = 100
    after: tuple[Scalar, ...] | None = None
    fields: tuple[str, ...] | None = None


class Page(Struct, frozen=True):
    """Documents in order, and the cursor of the next page, or None at the end."""

    documents: list[Document]
    cursor: str | None


class Cap(Struct, frozen=True):
    """At most `limit` documents may match `where`, counting those about to be claimed.

    Exact as long as documents come to match `where` by `claim` alone.
    """

    where: tuple[Condition, ...]
    limit: int


class Claim(Struct, frozen=True):
    """Take hold of up to `n` documents that match, in order, and set fields on them, in one act.

    Only documents that nobody holds are taken, each by `holder` for `ttl_ms` under a new term. Every
    cap counts every document taken. `set` may name declared fields only.
    """

    where: tuple[Condition, ...]
    holder: str
    ttl_ms: int
    n: int = 1
    sort: tuple[str, ...] = ()
    set: tuple[tuple[str, Scalar], ...] = ()
    caps: tuple[Cap, ...] = ()


class Capabilities(Struct, frozen=True):
    """What differs between backends, as data."""

    watch: Literal["push", "poll"]
    server_time: bool
    shared: Literal["process", "machine", "network"]
    bounded: bool = False
    """Keeps to the store's time limit by itself, and knows better than `Store` which calls can be long."""
