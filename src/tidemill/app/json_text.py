"""JSON that people and programs sent, and what is said of it when it is none."""

import json
from typing import Any

import msgspec


def decoded(content: bytes | bytearray | str) -> Any:
    """What the text says. Raises `ValueError` with what is wrong with it, and where."""
    # Bytes that are no text come from the command line as halves of surrogate pairs: back to what they were.
    raw = content.encode(errors="surrogateescape") if isinstance(content, str) else content
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(_no_text(raw) or _half_a_pair(raw) or str(error)) from error


def _no_text(content: bytes | bytearray) -> str | None:
    """Where it stops being text; None when all of it is."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return f"byte {error.start} (0x{content[error.start]:02x}) is no UTF-8"
    return None


def _half_a_pair(content: bytes | bytearray) -> str | None:
    """Which escape stands for no character. The quick reader says of such that the input is truncated."""
    try:
        json.dumps(json.loads(content), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return rf"\u{ord(error.object[error.start]):04x} is half of a surrogate pair, which is no character"
    except (ValueError, RecursionError):
        pass
    return None
