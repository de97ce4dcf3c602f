"""Blobs: payloads, results, outputs, log segments and state files, outside documents.

It promises that a blob appears whole or not at all, never changes, and is never handed out damaged:
every read is checked against the digest that its reference carries. The interface is synchronous and
can be pickled, so that Spark tasks use it as everyone else does.

    blobs = open_blobs("file:///data/blobs", create=True)
    ref = blobs.put("tasks/41/payload", source)               # bytes, a file, or an iterable of bytes
    with blobs.create("pipelines/p/t3/s7/out") as writer:     # published when the block ends well
        writer.write(part)
    blobs.read(ref), blobs.open(ref), blobs.map(ref)          # bytes, a file, memory
    blobs.sweep(referred, grace_s=3600, now=blobs.now())      # what nobody refers to

Words: a *name* is chosen by the caller and holds one content for good; a *reference* is what documents
carry: name, size and digest, or small content itself (*inline*); a *draft* is a blob before it is
published; a *shelf* is the place that holds the bytes; a *lease* keeps a cache entry from eviction.

Read `blobs` (every verb), `ref`, `format` (the stored form and its digests), `stream` and `mapped` (the
two ways to read), `shelf` (the seam that a backend implements), `local` (the folder), `name`, `s3` (the
bucket), `cache` (remote blobs as local files), `address`, `errors`. A new backend is a `Shelf`; it passes
`tidemill.store.testing.blobs.BlobSuite`.

It knows nothing of documents: who refers to what is told to `sweep`.
"""

from tidemill.store.blobs.address import open_blobs
from tidemill.store.blobs.blobs import Blobs, Swept
from tidemill.store.blobs.cache import BlobCache, CachedBlobs, CacheFolder
from tidemill.store.blobs.errors import (
    BlobDamaged,
    BlobError,
    BlobExists,
    BlobFormat,
    BlobMissing,
    BlobNoSpace,
    BlobRefused,
    BlobUnavailable,
)
from tidemill.store.blobs.mapped import Mapped
from tidemill.store.blobs.ref import INLINE_LIMIT, BlobRef
from tidemill.store.blobs.shelf import Entry
from tidemill.store.blobs.stream import BlobWriter

__all__ = [
    "open_blobs",
    "Blobs",
    "BlobRef",
    "BlobWriter",
    "Mapped",
    "Entry",
    "Swept",
    "BlobCache",
    "CacheFolder",
    "CachedBlobs",
    "INLINE_LIMIT",
    "BlobError",
    "BlobMissing",
    "BlobExists",
    "BlobDamaged",
    "BlobFormat",
    "BlobRefused",
    "BlobUnavailable",
    "BlobNoSpace",
]
