"""Remote blobs as local files: fetched once, kept within a bound, the least recently used leave first.

The folder is all there is: threads and processes that name the same folder share it, and a restart
finds it as it was. Entries are named by digest.

    lease        a shared lock on the entry's file, held for as long as the mapping lives
    last use     the time of the file
    fetching     a draft of the full size, so that what is under way counts against the bound
    +fetch-xx    locks, by the first digits of the digest: one fetches, the others wait for it
    +room        lock: shared to lease, alone to add up the folder and evict
"""

import fcntl
import os
import shutil
import time
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

from tidemill.store.blobs.blobs import Blobs
from tidemill.store.blobs.errors import BlobDamaged, BlobFormat, BlobMissing, BlobNoSpace
from tidemill.store.blobs.format import BLOCK_BYTES, Blocks, read_blocks, stored_bytes
from tidemill.store.blobs.local import LocalDraft, LocalShelf, LocalStored, locked, os_errors
from tidemill.store.blobs.mapped import Mapped
from tidemill.store.blobs.ref import BlobRef
from tidemill.store.blobs.shelf import Bytes
from tidemill.store.blobs.stream import BlobWriter


class BlobCache:
    """Serves `blobs` from a local folder that never holds more than `max_bytes`. Can be pickled."""

    def __init__(self, blobs: Blobs, folder: Path, max_bytes: int) -> None:
        self.blobs = blobs
        self.max_bytes = max_bytes
        self._shelf = LocalShelf(folder, durable=False)

    def map(self, ref: BlobRef) -> Mapped:
        """The content as memory, each block checked when first touched, fetched if it is not here.

        The entry is not evicted while the result or a view of it lives. A damaged entry is fetched
        again. Raises what reading the blob raises, and `BlobNoSpace` when what is in use leaves no room.
        """
        if ref.content is not None:
            return self.blobs.map(ref)
        stored, blocks = self._lease(ref)
        with stored:
            return Mapped(stored.map(ref.size), blocks, lambda index: self._mend(ref, index))

    def used_bytes(self) -> int:
        """What the folder holds, with what is being fetched."""
        return self._shelf.stored_bytes()

    def _lease(self, ref: BlobRef) -> tuple[LocalStored, Blocks]:
        while (leased := self._try_lease(ref)) is None:
            self._fetch(ref)
        return leased

    def _try_lease(self, ref: BlobRef) -> tuple[LocalStored, Blocks] | None:
        """The entry, locked against eviction; None when it is not here or not whole."""
        self._shelf.prepare()
        with ExitStack() as undo:
            # Nobody leases while room is made: who evicts sees every entry as of one moment.
            with self._lock("+room", fcntl.LOCK_SH):
                try:
                    stored = undo.enter_context(self._shelf.open(ref.digest))
                except BlobMissing:
                    return None
                stored.lease(time.time_ns())
            try:
                blocks = read_blocks(ref.digest, stored)
                blocks.expect(ref.size, ref.digest)
            except (BlobDamaged, BlobFormat):
                self._drop(stored)
                return None
            undo.pop_all()
            return stored, blocks

    def _fetch(self, ref: BlobRef) -> None:
        """Bring the blob here, or wait for whoever is doing so."""
        with self._lock(f"+fetch-{ref.digest[2:4]}"):
            if not self._shelf.path(ref.digest).exists():
                with self.blobs.open(ref) as reader, BlobWriter(ref.digest, self._draft(ref)) as writer:
                    shutil.copyfileobj(reader, writer, BLOCK_BYTES)

    def _draft(self, ref: BlobRef) -> LocalDraft:
        """A draft that has room for the blob, made by evicting others."""
        wanted = stored_bytes(ref.size)
        with self._lock("+room"):
            self._shelf.tidy(older_than=float("inf"))  # drafts of the dead: the living hold theirs locked
            excess = self._shelf.stored_bytes() + wanted - self.max_bytes
            for entry in sorted(self._shelf.entries(), key=lambda entry: entry.published_at):
                if excess > 0 and wanted <= self.max_bytes and self._evict(entry.name):
                    excess -= entry.stored_bytes
            if excess > 0:
                raise BlobNoSpace(
                    f"no room for {wanted} bytes in the blob cache {self._shelf.root}: it may hold "
                    f"{self.max_bytes}, and {self._shelf.stored_bytes()} are in use"
                )
            return self._shelf.create(ref.digest, reserve=wanted)

    def _evict(self, name: str) -> bool:
        """Remove an entry unless it is leased."""
        try:
            stored = self._shelf.open(name)
        except BlobMissing:
            return True
        with stored:
            return not stored.is_leased() and self._shelf.delete(name)

    def _mend(self, ref: BlobRef, index: int) -> Bytes:
        """The content from an entry whose block is whole: the present one, or a fresh one."""
        stored, blocks = self._lease(ref)
        with stored:
            start, stop = blocks.bounds(index)
            try:
                blocks.check(index, stored.read_at(start, stop - start))
                return stored.map(ref.size)
            except BlobDamaged:
                self._drop(stored)
        stored, _ = self._lease(ref)
        with stored:
            return stored.map(ref.size)

    def _drop(self, stored: LocalStored) -> None:
        """Remove a damaged entry, unless it was replaced already. Its mappings stay as they are."""
        with self._lock("+room"), os_errors(f"drop {stored.path}"):
            if stored.is_current():
                stored.path.unlink()

    def _lock(self, name: str, mode: int = fcntl.LOCK_EX) -> AbstractContextManager[None]:
        return locked(self._shelf.root / name, mode, os.O_CREAT)


@dataclass(frozen=True, slots=True)
class CacheFolder:
    """A folder of this machine for remote blobs that are mapped, and how much it may hold."""

    path: Path
    max_bytes: int = 10 * 1024**3


@dataclass(frozen=True, slots=True)
class CachedBlobs(Blobs):
    """Blobs of a remote shelf that are mapped from files in a folder, as `BlobCache` keeps them."""

    cache: CacheFolder

    def map(self, ref: BlobRef) -> Mapped:
        return BlobCache(Blobs(self.shelf), self.cache.path, self.cache.max_bytes).map(ref)
