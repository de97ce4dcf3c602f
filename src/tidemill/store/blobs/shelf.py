"""The seam between blobs and the places that hold their bytes.

A shelf knows bytes under names, nothing of digests beyond comparing them. It promises that a name
appears whole or not at all, and that what lies under a name does not change until it is deleted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Entry:
    """One published blob, as a listing sees it. `published_at` is in seconds since the epoch."""

    name: str
    stored_bytes: int
    published_at: float


class Draft(Protocol):
    """A blob in the making. Nobody sees it before `publish`; a crash leaves it to `Shelf.tidy`."""

    def write(self, data: Bytes) -> None:
        """Append bytes."""

    def publish(self, digest: str) -> None:
        """Make the whole visible under its name, durably unless it was created otherwise.

        Under a name that is taken: by the same digest, make that one as young as if just published;
        by another, raise `BlobExists`.
        """

    def discard(self) -> None:
        """Leave nothing behind. Safe to repeat, and after `publish`."""


class Stored(Protocol):
    """The open bytes of one published blob. Stays readable if the name is deleted meanwhile."""

    @property
    def size(self) -> int: ...

    def read_at(self, offset: int, length: int) -> bytes:
        """The bytes there; fewer only at the end."""

    def map(self, length: int) -> Bytes:
        """The first `length` bytes as shared, read-only memory, or a copy where there is no sharing."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Shelf(Protocol):
    """A place for blobs. Implementations can be pickled, and are safe to share between threads."""

    def create(self, name: str, *, durable: bool = True) -> Draft:
        """A blob in the making. Without `durable` a power cut may lose or damage it until `sync`."""

    def sync(self, names: Iterable[str]) -> None:
        """Make these blobs durable. Raises `BlobMissing` when one is not there."""

    def open(self, name: str) -> Stored:
        """Raises `BlobMissing` only when the place is there and the name is not."""

    def entries(self, under: str) -> Iterator[Entry]:
        """Everything published below the folder `under` ("" is all), in no order."""

    def now(self) -> float:
        """The time by the clock that dates what is published, in seconds since the epoch."""

    def delete(self, name: str, older_than: float | None = None) -> bool:
        """Delete the name, if it was published before `older_than`. False when nothing was deleted."""

    def tidy(self, older_than: float) -> int:
        """Remove drafts last written before `older_than` whose writers are gone. Returns how many."""
