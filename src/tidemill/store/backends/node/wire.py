"""What a node and a program without access to its database say to each other about leases, in JSON.

The program asks and the node answers, one after another on each connection.
"""

from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from tidemill.store.document import Body, Query, Term

PATH = "/api/v1/leases"


class Get(Struct, frozen=True, tag="get", tag_field="verb"):
    collection: str
    keys: list[str]


class Find(Struct, frozen=True, tag="find", tag_field="verb"):
    collection: str
    query: Query


class Hold(Struct, frozen=True, tag="hold", tag_field="verb"):
    collection: str
    keys: list[str]
    holder: str
    ttl_ms: int


class Renew(Struct, frozen=True, tag="renew", tag_field="verb"):
    collection: str
    terms: dict[str, int]
    ttl_ms: int


class Release(Struct, frozen=True, tag="release", tag_field="verb"):
    collection: str
    terms: dict[str, int]


class Change(Struct, frozen=True):
    """A `Write` to a document of the collection that the request names."""

    key: str
    body: Body | None
    expect: int | Term | None


class Put(Struct, frozen=True, tag="write", tag_field="verb"):
    collection: str
    changes: list[Change]


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
