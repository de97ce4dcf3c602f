"""Listings: the segments of one append or one step, inside the document while they are few."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from tidemill.pipeline.errors import ForeignState
from tidemill.pipeline.failpoint import reach
from tidemill.pipeline.log.chain import Files
from tidemill.pipeline.log.segment import SegmentRef
from tidemill.store.blobs import BlobRef

INLINE = 4
"""So many references may lie inside a document; of a bulk load by many tasks there are hundreds."""

FORMAT = 1


class Listing(Struct, frozen=True, omit_defaults=True):
    """References to segments, here or in a blob."""

    inline: tuple[SegmentRef, ...] = ()
    blob: BlobRef | None = None


async def write_listing(files: Files, name: str, segments: Sequence[SegmentRef]) -> Listing:
    """A listing of these segments; published under the name if it is too long for a document."""
    if len(segments) <= INLINE:
        return Listing(tuple(segments))
    content = msgspec.json.encode({"format": FORMAT, "segments": segments})
    listing = Listing(blob=await files.put(name, content))
    reach("log.listing.after_write")
    return listing


async def read_listing(files: Files, listing: Listing) -> tuple[SegmentRef, ...]:
    if listing.blob is None:
        return listing.inline
    found = msgspec.json.decode(await files.read(listing.blob))
    if found["format"] != FORMAT:
        raise ForeignState(
            f"{listing.blob.name} has format {found['format']}, and this release reads {FORMAT}"
        )
    return msgspec.convert(found["segments"], tuple[SegmentRef, ...])
