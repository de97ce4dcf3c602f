"""What can go wrong with blobs, grouped by what a caller can do about it.

BlobError
├─ BlobMissing       nothing is published under the name: it was never written, or swept
├─ BlobExists        the name holds other content, and names are immutable: choose another
├─ BlobDamaged       the stored bytes are not those that were written: restore or recompute them
├─ BlobFormat        written by a release that this one cannot read: upgrade this one
├─ BlobRefused       the name or address can never be used as it stands
└─ BlobUnavailable   the place cannot be reached, read or written: try again later
   └─ BlobNoSpace    no room is left, on the disk or within the bound of a cache
"""

from tidemill.base.errors import TidemillError


class BlobError(TidemillError):
    """A blob could not be read or written."""

    code = "blob"


class BlobMissing(BlobError):
    """Nothing is published under that name."""

    code = "blob.missing"


class BlobExists(BlobError):
    """The name holds other content. Nothing was written."""

    code = "blob.exists"


class BlobDamaged(BlobError):
    """The stored bytes, or the reference to them, are not what was written."""

    code = "blob.damaged"


class BlobFormat(BlobError):
    """The stored form is unknown to this release."""

    code = "blob.format"


class BlobRefused(BlobError):
    """The name or address is not allowed. The message says what is."""

    code = "blob.refused"


class BlobUnavailable(BlobError):
    """The place cannot be used now. A publish that ends so may have happened; repeating it is safe."""

    code = "blob.unavailable"


class BlobNoSpace(BlobUnavailable):
    """No room is left. Nothing was published, and what was written of it is gone."""

    code = "blob.no_space"
