"""Listings: the segments of one append or one step, inside the document while they are few."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from tidemill.pipeline.errors import ForeignState
from tidemill.pipeline.failpoint import reach
from tidemill.pipeline.log.file import FileRef, Files
from tidemill.pipeline.log.segment import SegmentRef

INLINE = 4
"""So many references may lie inside a document; of a bulk load by many tasks there are hundreds."""

FORMAT = 1


class Listing(Struct, frozen=True, omit_defaults=True):
    """References to segments, here or in a file."""

    inline: tuple[SegmentRef, ...] = ()
    file: FileRef | None = None


async def write_listing(files: Files, name: str, segments: Sequence[SegmentRef]) -> Listing:
    """A listing of these segments; published under the name if it is too long for a document."""
    if len(segments) <= INLINE:
        return Listing(tuple(segments))
    content = msgspec.json.encode({"format": FORMAT, "segments": segments})
    listing = Listing(file=await files.put(name, content))
    reach("log.listing.after_write")
    return listing


async def read_listing(files: Files, listing: Listing) -> tuple[SegmentRef, ...]:
    if listing.file is None:
        return listing.inline
    found = msgspec.json.decode(await files.read(listing.file))
    if found["format"] != FORMAT:
        raise ForeignState(
            f"{listing.file.name} has format {found['format']}, and this release reads {FORMAT}"
        )
    return msgspec.convert(found["segments"], tuple[SegmentRef, ...])
