"""What may be stored: the same limits on every backend, so that a document that one takes all take."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from tidemill.store.document import FACTS, Body, Claim, Collection, Condition, Query, Scalar, Where, Write
from tidemill.store.errors import BadRequest

KEY_BYTES = 512
TEXT_BYTES = 512
BODY_BYTES = 4 * 1024 * 1024
FIND_LIMIT = 10_000
CHANNEL_BYTES = 54

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_encode = msgspec.json.Encoder().encode
decode_body: Callable[[str | bytes], Body] = msgspec.json.Decoder(Body).decode
_TYPES: dict[str, tuple[type, ...]] = {"text": (str,), "integer": (int,), "real": (int, float)}


def check_collection(collection: Collection) -> None:
    """Refuse names that some database could not take, and indexes over undeclared fields."""
    names = [collection.name, *(name for name, _ in collection.fields), *collection.topics]
    for name in names:
        if not _NAME.fullmatch(name):
            raise BadRequest(f"{name!r} cannot name a collection, field or topic: a-z, 0-9 and _, at most 40")
    for channel in map(collection.channel, collection.topics):
        if len(channel) > CHANNEL_BYTES:
            raise BadRequest(f"{channel!r}, a collection and its topic, is longer than {CHANNEL_BYTES}")
    for name, _ in collection.fields:
        if name in FACTS:
            raise BadRequest(f"field {name!r} of {collection.name} is a fact that every document has")
    for index in (*collection.indexes, *collection.sparse):
        for field in index:
            _known(collection, field)


def check_key(key: str) -> None:
    if not _plain(key, KEY_BYTES):
        _check_text("key", key, KEY_BYTES)
    if not key:
        raise BadRequest("a key may not be empty")


def check_topic(collection: Collection, topic: str | None) -> None:
    if topic is not None and topic not in collection.topics:
        raise BadRequest(f"{collection.name} has no topic {topic!r}")


def check_write(write: Write) -> None:
    check_key(write.key)
    check_topic(write.collection, write.about)
    body = write.body
    if body is None:
        if write.expect is None:
            raise BadRequest(f"a delete of {write.key!r} needs the revision or term it expects")
        return
    for name, kind in write.collection.fields:
        if name in body:
            check_value(name, kind, body[name])


def encode_body(body: Body) -> str:
    """The body as JSON text. Refuses what would not come back as it went in."""
    try:
        raw = _encode(body)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRequest(f"the document cannot be written as JSON: {error}") from error
    if len(raw) > BODY_BYTES:
        raise BadRequest(f"the document has {len(raw):,} bytes; at most {BODY_BYTES:,}, put it in a blob")
    if b"null" in raw and not _finite(body):
        # The encoder writes NaN and infinity as null, which would change the document in silence.
        raise BadRequest("the document holds NaN or infinity, which JSON does not have")
    return raw.decode()


def check_query(collection: Collection, query: Query) -> None:
    check_where(collection, query.where)
    _check_sort(collection, query.sort)
    if not 1 <= query.limit <= FIND_LIMIT:
        raise BadRequest(f"limit is {query.limit}; 1 to {FIND_LIMIT:,} are allowed")


def check_claim(collection: Collection, claim: Claim) -> None:
    check_where(collection, claim.where)
    _check_sort(collection, claim.sort)
    check_hold(claim.holder, claim.ttl_ms)
    if claim.n < 1:
        raise BadRequest(f"a claim for {claim.n} documents; at least 1")
    declared = dict(collection.fields)
    for name, value in claim.set:
        if name not in declared:
            raise BadRequest(f"claim can set declared fields of {collection.name} only, not {name!r}")
        check_value(name, declared[name], value)
    for cap in claim.caps:
        check_where(collection, cap.where)


def check_hold(holder: str, ttl_ms: int) -> None:
    _check_text("holder", holder, TEXT_BYTES)
    if not holder:
        raise BadRequest("a holder may not be empty")
    if ttl_ms < 1:
        raise BadRequest(f"ttl is {ttl_ms} ms; at least 1")


def check_where(collection: Collection, where: Where) -> None:
    for condition in where:
        kind = _known(collection, condition.field)
        for value in values_of(condition):
            check_value(condition.field, kind, value)


def values_of(condition: Condition) -> Sequence[Scalar]:
    return condition.value if isinstance(condition.value, tuple) else (condition.value,)


def check_value(field: str, kind: str, value: Any) -> None:
    if value is None or (kind == "text" and _plain(value, TEXT_BYTES)):
        return
    if kind == "integer" and type(value) is int and -(2**63) <= value < 2**63:
        return
    if not isinstance(value, _TYPES[kind]) or isinstance(value, bool):
        raise BadRequest(f"field {field!r} is declared {kind}, and {value!r} is not")
    if isinstance(value, str):
        _check_text(field, value, TEXT_BYTES)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise BadRequest(f"field {field!r} takes 64-bit integers, and {value} is beyond them")
    elif isinstance(value, float) and not math.isfinite(value):
        raise BadRequest(f"field {field!r} takes finite numbers, and {value} is not")


def _check_sort(collection: Collection, sort: Iterable[str]) -> None:
    for entry in sort:
        _known(collection, entry.removeprefix("-"))


def _known(collection: Collection, field: str) -> str:
    kind = collection.type_of(field)
    if kind is None:
        raise BadRequest(f"{collection.name} declares no field {field!r}, so it cannot be searched")
    return kind


def _plain(text: str, limit: int) -> bool:
    """Whether it is text that plainly fits, as nearly all is; the others are looked at more closely."""
    return type(text) is str and text.isascii() and len(text) <= limit and "\0" not in text


def _check_text(what: str, text: str, limit: int) -> None:
    if not isinstance(text, str):
        raise BadRequest(f"{what} is {text!r}, which is not text")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise BadRequest(f"{what} holds a lone surrogate, which is not text") from error
    if size > limit:
        raise BadRequest(f"{what} has {size} bytes; at most {limit}")
    if "\0" in text:
        raise BadRequest(f"{what} holds a NUL character, which not every database can store")


def _finite(value: Any) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(_finite, value.values()))
        case list() | tuple():
            return all(map(_finite, value))
        case _:
            return True
