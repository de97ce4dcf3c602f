"""What a node and a program without access to its database say to each other about leases, in JSON.

The program asks and the node answers, one after another on each connection. No more can be said than locks
and semaphores need, nor more of it at a time, as the other side can be any program that has a token.
"""

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

PATH = "/api/v1/leases"

MOST = 100
"""As many documents may be named at a time."""

Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Keys: TypeAlias = Annotated[list[str], Meta(max_length=MOST)]
Terms: TypeAlias = Annotated[dict[str, Number], Meta(max_length=MOST)]
Ttl: TypeAlias = Annotated[int, Meta(ge=1, le=3_600_000)]
"""Milliseconds: what a program that dies leaves behind is gone after an hour."""


class Get(Struct, frozen=True, tag="get", tag_field="verb"):
    collection: str
    keys: Keys


class Find(Struct, frozen=True, tag="find", tag_field="verb"):
    """The first documents with `start <= key < end`."""

    collection: str
    start: str
    end: str
    limit: int


class Hold(Struct, frozen=True, tag="hold", tag_field="verb"):
    collection: str
    keys: Keys
    holder: str
    ttl_ms: Ttl


class Renew(Struct, frozen=True, tag="renew", tag_field="verb"):
    collection: str
    terms: Terms
    ttl_ms: Ttl


class Release(Struct, frozen=True, tag="release", tag_field="verb"):
    collection: str
    terms: Terms


class Size(Struct, frozen=True, forbid_unknown_fields=True):
    """All that a program may write into a document: how many slots a semaphore has."""

    slots: Annotated[int, Meta(ge=1, le=1000)]


class Change(Struct, frozen=True):
    """A write to a semaphore's document, which must be new, or at that revision, or held under that term."""

    key: str
    body: Size | None
    revision: Number | None = None
    term: Number | None = None


class Put(Struct, frozen=True, tag="write", tag_field="verb"):
    changes: Annotated[list[Change], Meta(max_length=MOST)]


class Now(Struct, frozen=True, tag="now", tag_field="verb"):
    """Ask for the store's time."""


class Watch(Struct, frozen=True, tag="watch", tag_field="verb"):
    """Ask to be told of changes, each by an answer with a collection's name; nothing more may be asked."""


Request: TypeAlias = Get | Find | Hold | Renew | Release | Put | Now | Watch

UNKNOWN = -1


class Answer(Struct, frozen=True, tag="answer", tag_field="kind"):
    """Documents, leases or a number; for writes the revisions, with None for what lost, and `UNKNOWN`."""

    result: Any = None


class Refusal(Struct, frozen=True, tag="refusal", tag_field="kind"):
    """The store's error, by its stable code."""

    code: str
    message: str
    maybe_applied: bool = False


Reply: TypeAlias = Answer | Refusal

encode = msgspec.json.Encoder().encode
decode_request = msgspec.json.Decoder(Request).decode
decode_reply = msgspec.json.Decoder(Reply).decode
