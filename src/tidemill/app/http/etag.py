"""ETags: the revision of a document, for those who change only what they have seen."""

from typing import Annotated, TypeAlias

from fastapi import Header

from tidemill.app.http.problem import PreconditionFailed

IfMatch: TypeAlias = Annotated[str | None, Header()]


def etag(revision: int) -> str:
    return f'"{revision}"'


def expected(if_match: str | None) -> int | None:
    """The revision that a change is based on; None when that is all the same. Raises `PreconditionFailed`."""
    text = (if_match or "*").strip().strip('"')
    if text == "*":
        return None
    if not text.isascii() or not text.isdigit():
        raise PreconditionFailed(f"If-Match {if_match!r} is no ETag of ours")
    return int(text)
