"""From an address to blobs."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidemill.store.blobs.blobs import Blobs
from tidemill.store.blobs.errors import BlobRefused
from tidemill.store.blobs.local import LocalShelf


def open_blobs(address: str | os.PathLike[str], *, create: bool = False) -> Blobs:
    """Open the blobs of a folder, given as a path or as `file:///path`.

    The folder must be a blob folder, else `BlobUnavailable` is raised; with `create` it is made one.
    An address of another kind raises `BlobRefused`.
    """
    shelf = LocalShelf(Path(_path(os.fspath(address))))
    if create:
        shelf.prepare()
    shelf.check()
    return Blobs(shelf)


def _path(address: str) -> str:
    if "://" not in address:
        if not address:
            raise BlobRefused("the address of blobs is empty")
        return address
    url = urlsplit(address)
    if url.scheme != "file":
        raise BlobRefused(f"blobs cannot lie at {url.scheme}://; known is file:///path, or a plain path")
    if url.netloc not in ("", "localhost") or not url.path or url.query or url.fragment:
        raise BlobRefused(f"{address!r} is not of the form file:///path")
    return unquote(url.path)
