"""References: what a document carries to find a blob and to know that it is the right one."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from tidemill.store.blobs.errors import BlobDamaged
from tidemill.store.blobs.format import hash_content, known_digest

INLINE_LIMIT = 32 * 1024
"""The largest content that may lie inside its reference."""


@dataclass(frozen=True, slots=True)
class BlobRef:
    """A blob's size and digest, with either the name it is published under or its whole content.

    Two references with the same digest stand for the same content.
    """

    size: int
    digest: str
    name: str | None = None
    content: bytes | None = field(default=None, repr=False)

    @classmethod
    def inline(cls, content: bytes) -> Self:
        return cls(len(content), hash_content("(inline)", content).digest, content=content)

    def to_json(self) -> dict[str, str | int]:
        if self.content is not None:
            place = {"inline": base64.b64encode(self.content).decode()}
        else:
            place = {"name": self.name or ""}
        return {**place, "size": self.size, "digest": self.digest}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Self:
        """Read what `to_json` gave, ignoring fields that a newer release added.

        Raises `BlobDamaged` when it is no reference, `BlobFormat` when its digest is of another format.
        """
        match value:
            case {"inline": str(text), "size": int(size), "digest": str(digest)}:
                try:
                    content = base64.b64decode(text, validate=True)
                except binascii.Error as error:
                    raise BlobDamaged(f"inline blob is not base64: {error}") from error
                return cls(size, known_digest(digest), content=content)
            case {"name": str(name), "size": int(size), "digest": str(digest)}:
                return cls(size, known_digest(digest), name)
        raise BlobDamaged(f"not a blob reference: {value!r:.200}")
