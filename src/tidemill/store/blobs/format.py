"""How a blob lies in storage: its content, the digest of each block of it, a footer.

    content                          size bytes
    SHA-256 of each block            32 bytes for every 256 KiB of content or part thereof
    footer                           size (8), format (4), CRC-32 of these two (4), "tidemill" (8)

The digest of a blob is the SHA-256 of its block digests. So one pass computes it, a reader checks each
block before handing it out, and a mapped file is checked block by block as it is touched, all against
the one digest that the reference carries. The digest starts with the number of the format, "1-".
"""

import hashlib
import struct
import zlib
from dataclasses import dataclass

from tidemill.store.blobs.errors import BlobDamaged, BlobFormat
from tidemill.store.blobs.shelf import Bytes, Stored

FORMAT = 1
BLOCK_BYTES = 256 * 1024

_DIGEST_BYTES = 32
_FOOTER = struct.Struct("<QII8s")
_MARK = b"tidemill"


@dataclass(frozen=True, slots=True)
class Blocks:
    """The block digests of one blob: what its content must hash to."""

    name: str
    size: int
    digests: bytes

    @property
    def digest(self) -> str:
        return f"{FORMAT}-{hashlib.sha256(self.digests).hexdigest()}"

    def touched(self, offset: int, length: int) -> range:
        """The numbers of the blocks in which these bytes lie."""
        return range(offset // BLOCK_BYTES, block_count(offset + length)) if length else range(0)

    def bounds(self, index: int) -> tuple[int, int]:
        """Where a block starts and stops in the content."""
        return index * BLOCK_BYTES, min(self.size, (index + 1) * BLOCK_BYTES)

    def check(self, index: int, block: Bytes) -> None:
        """Raise `BlobDamaged` unless these bytes are the block."""
        start = index * _DIGEST_BYTES
        if hash_block(block) != self.digests[start : start + _DIGEST_BYTES]:
            raise BlobDamaged(f"blob {self.name!r}: block {index} is not what was written")

    def expect(self, size: int, digest: str) -> None:
        """Raise unless this is the blob of that size and digest, as a reference states them."""
        known_digest(digest)
        if (self.size, self.digest) != (size, digest):
            raise BlobDamaged(f"blob {self.name!r} is not the content that its reference names")


def hash_block(block: Bytes) -> bytes:
    return hashlib.sha256(block).digest()


def hash_content(name: str, content: bytes) -> Blocks:
    """The blocks of content that lies in memory."""
    starts = range(0, len(content), BLOCK_BYTES)
    return Blocks(name, len(content), b"".join(hash_block(content[at : at + BLOCK_BYTES]) for at in starts))


def known_digest(digest: str) -> str:
    """Return the digest, or raise `BlobFormat` if it was made in a way unknown to this release."""
    if not digest.startswith(f"{FORMAT}-"):
        raise BlobFormat(f"blob digest {digest!r} is of a format other than {FORMAT}, the one known here")
    return digest


def block_count(size: int) -> int:
    return -(-size // BLOCK_BYTES)


def stored_bytes(size: int) -> int:
    """How many bytes a content of that size takes in storage."""
    return size + block_count(size) * _DIGEST_BYTES + _FOOTER.size


def trailer(size: int, digests: bytes) -> bytes:
    """What follows the content."""
    return digests + _FOOTER.pack(size, FORMAT, _footer_crc(size, FORMAT), _MARK)


def read_blocks(name: str, stored: Stored) -> Blocks:
    """Read what follows the content.

    Raises `BlobDamaged` when it is cut or overwritten, `BlobFormat` when it is of another format.
    """
    # The content is smaller than the whole, so its trailer is no longer than this: one read will do.
    longest = min(stored.size, stored_bytes(stored.size) - stored.size)
    tail = stored.read_at(stored.size - longest, longest)
    if len(tail) < _FOOTER.size:
        raise BlobDamaged(f"blob {name!r} is cut short")
    size, version, crc, mark = _FOOTER.unpack(tail[-_FOOTER.size :])
    if mark != _MARK or crc != _footer_crc(size, version):
        raise BlobDamaged(f"blob {name!r}: its end is missing or overwritten")
    if version != FORMAT:
        raise BlobFormat(f"blob {name!r} has format {version}; this release reads format {FORMAT}")
    if stored_bytes(size) != stored.size:
        raise BlobDamaged(f"blob {name!r} has {stored.size} stored bytes instead of {stored_bytes(size)}")
    return Blocks(name, size, tail[size - stored.size : -_FOOTER.size])


def _footer_crc(size: int, version: int) -> int:
    return zlib.crc32(struct.pack("<QI", size, version))
