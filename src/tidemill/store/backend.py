"""The seam that a database implements. `Store` stands on it and is what everybody else uses.

A backend may trust what it is given: `Store` has checked keys, bodies and conditions. It raises only
errors of `tidemill.store.errors`; when a request was sent and its answer lost, it raises
`Unavailable(maybe_applied=True)` and leaves the settling to `Store`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from tidemill.store.document import (
    Capabilities,
    Claim,
    Collection,
    Document,
    Lease,
    Outcome,
    Query,
    Where,
    Write,
)

OnChange: TypeAlias = Callable[[str | None], None]
"""Told the name of a collection that somebody else changed; None when it may be any."""


class Backend(Protocol):
    """Atomic acts on documents. Each method is one round trip, or as near to it as the database allows."""

    capabilities: Capabilities

    async def open(self) -> None:
        """Connect, lay out what is missing, and refuse a store that is closed to this release."""

    async def close(self) -> None:
        """Let go of every connection. A second call changes nothing."""

    async def prepare(self, collection: Collection) -> None:
        """Make sure that the collection, its fields and its indexes are there. Adds, never removes."""

    async def get_many(self, collection: Collection, keys: Sequence[str]) -> list[Document]:
        """The documents that exist, in any order."""

    async def write(self, writes: Sequence[Write], nonce: int) -> list[Outcome]:
        """Do each write on its own, all in one go; mark each written document with the nonce."""

    async def nonces(self, collection: Collection, keys: Sequence[str]) -> Mapping[str, tuple[int, int]]:
        """For each document that exists: its revision and the nonce of its last write."""

    async def find(self, collection: Collection, query: Query) -> list[Document]:
        """Up to `query.limit` documents in order, after `query.after`."""

    async def count(self, collection: Collection, where: Where, limit: int) -> int:
        """How many documents match, counting no further than `limit`."""

    async def claim(self, collection: Collection, claim: Claim, nonce: int) -> list[Document]:
        """Take hold of documents within the caps, atomically; mark each with the nonce."""

    async def claimed(self, collection: Collection, nonce: int) -> list[Document]:
        """The documents whose last write or claim bore the nonce."""

    async def hold(
        self, collection: Collection, keys: Sequence[str], holder: str, ttl_ms: int
    ) -> list[Lease]:
        """For each key: extend it if `holder` has it, take it if nobody has, else leave it be."""

    async def renew(self, collection: Collection, terms: Mapping[str, int], ttl_ms: int) -> list[Lease]:
        """Extend each that still stands under its term; return all as they stand now."""

    async def release(self, collection: Collection, terms: Mapping[str, int]) -> None:
        """Let go of each that still stands under its term."""

    async def now(self) -> int:
        """The store's own time in milliseconds."""

    async def oldest_writer(self) -> str:
        """The oldest release that may write."""

    async def close_to_older(self, release: str) -> None:
        """Let no release older than this one open the store from now on. Never goes back."""

    def subscribe(self, channels: Sequence[str], on_change: OnChange) -> None:
        """Report changes that others announce there from now on, as well as the database can.

        It is called again for further channels, with the same `on_change`.
        """

    def announce(self, channels: Sequence[str]) -> None:
        """Tell others what changed. A hint: it may be late or lost."""
