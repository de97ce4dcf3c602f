"""Blob names: which are allowed, and the path of each in a folder.

A name is a few parts joined by `/`, as in `pipelines/bids/t3/s41/output.arrow`. In a folder, lower-case
ASCII letters, digits, dot, dash and underscore stand for themselves and everything else is
percent-encoded, so that file systems which ignore case or normalize unicode cannot merge two names.
A plus sign therefore never comes from a name: what has one is ours.

    a/b        a/b+blob              the file of a blob ends in "+blob", so "a" and "a/b" can both exist
    a/long…    a/lo+/ng…+blob        an encoded part longer than a file name may be goes on in a folder "…+"
"""

import re
from urllib.parse import unquote_to_bytes

from tidemill.store.blobs.errors import BlobRefused

NAME_LIMIT = 512
"""The longest name, in bytes of UTF-8."""

BLOB_SUFFIX = "+blob"

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789._-")
_PIECE = 200  # file systems take 255 bytes a name; this leaves room for our suffixes
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def check_name(name: str) -> str:
    """Return the name if it may be used, else raise `BlobRefused` with the reason."""
    if not name or any(part in ("", ".", "..") for part in name.split("/")):
        raise BlobRefused(f"blob name {name!r} has an empty, '.' or '..' part")
    if _CONTROL.search(name):
        raise BlobRefused(f"blob name {name!r} has a control character")
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise BlobRefused(f"blob name {name!r} is not valid unicode") from None
    if length > NAME_LIMIT:
        raise BlobRefused(f"blob name of {length} bytes is longer than {NAME_LIMIT}: {name[:40]!r}…")
    return name


def encode(name: str) -> str:
    """The relative path of a folder of names. A blob's file adds `BLOB_SUFFIX`."""
    return "/".join(_encode_part(part) for part in check_name(name).split("/"))


def decode(path: str) -> str:
    """The name whose `encode` gave the path."""
    return unquote_to_bytes(path.replace("+/", "")).decode()


def _encode_part(part: str) -> str:
    text = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in part.encode())
    return "+/".join(text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
