"""Cursors: where a page ended, as text that means nothing to the caller."""

import base64
import binascii

import msgspec

from tidemill.store.document import Document, Scalar
from tidemill.store.errors import BadRequest


def encode_cursor(last: Document, sort: tuple[str, ...]) -> str:
    values = [value_of(last, entry.removeprefix("-")) for entry in sort]
    return base64.urlsafe_b64encode(msgspec.json.encode([*values, last.key])).decode()


def decode_cursor(cursor: str, sorted_by: int) -> tuple[Scalar, ...]:
    try:
        values = msgspec.json.decode(base64.urlsafe_b64decode(cursor), type=tuple[Scalar, ...])
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise BadRequest(f"{cursor!r} is not a cursor of this store") from error
    if len(values) != sorted_by + 1:
        raise BadRequest(f"cursor {cursor!r} belongs to a query with another sort")
    return values


def value_of(document: Document, field: str) -> Scalar:
    """The value of a fact or of a declared field."""
    match field:
        case "key":
            return document.key
        case "revision":
            return document.revision
        case "term":
            return document.term
        case "holder":
            return document.holder
        case "expire":
            return document.expire
        case _:
            value: Scalar = document.body.get(field)
            return value
