"""From an address to blobs."""

import os
import re
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from tidemill.store.blobs.blobs import Blobs
from tidemill.store.blobs.cache import CachedBlobs, CacheFolder
from tidemill.store.blobs.errors import BlobRefused
from tidemill.store.blobs.local import LocalShelf
from tidemill.store.blobs.shelf import Shelf

ADDRESSES = "file:///path, a plain path, or s3://bucket/prefix"

_ENDPOINT = re.compile(r"https?://([\w.-]+|\[[\da-fA-F:.]+\])(:\d+)?(/[^@]*)?")
_S3_OPTIONS = ("endpoint", "region", "access_key_id", "secret_access_key")


class Place(Shelf, Protocol):
    """A shelf that can be made, and that can tell whether it is one."""

    def prepare(self) -> None:
        """Make it one, and check."""

    def check(self) -> None:
        """Raise unless it is one."""


def open_blobs(
    address: str | os.PathLike[str],
    *,
    under: str = "",
    create: bool = False,
    cache: CacheFolder | None = None,
) -> Blobs:
    """Open the blobs of a folder, given as a path or as `file:///path`, or those of `s3://bucket/prefix`.

    With `under`, those of a folder of that name there, which have nothing to do with the others. Blobs must
    lie there already, else `BlobUnavailable` is raised; with `create` the place is made one. With `cache`,
    what is mapped of remote blobs is kept in a folder. An address of another kind, and one that the server
    will not let us use, raises `BlobRefused`.
    """
    text = os.fspath(address)
    place = _s3(text, under) if text.startswith("s3://") else LocalShelf(Path(_path(text), under))
    if create:
        place.prepare()
    else:
        place.check()
    if cache is None or isinstance(place, LocalShelf):
        return Blobs(place)
    return CachedBlobs(place, cache)


def _path(address: str) -> str:
    if "://" not in address:
        if not address:
            raise BlobRefused("the address of blobs is empty")
        return address
    url = urlsplit(address)
    if url.scheme != "file":
        raise BlobRefused(f"blobs cannot lie at {url.scheme}://; known is {ADDRESSES}")
    if url.netloc not in ("", "localhost") or not url.path or url.query or url.fragment:
        raise BlobRefused(f"{address!r} is not of the form file:///path")
    return unquote(url.path)


def _s3(address: str, under: str) -> Place:
    # Its driver is imported here and not above, so that `import tidemill` does not load it.
    try:
        from tidemill.store.blobs.s3 import Bucket, S3Shelf
    except ImportError as error:
        raise BlobRefused("blobs on S3 need its driver: pip install 'tidemill[s3]'") from error
    url = urlsplit(address)
    place = f"s3://{url.netloc.rpartition('@')[2]}{url.path}"  # without what may be a secret
    if not url.netloc or "@" in url.netloc or url.fragment:
        raise BlobRefused(f"{place} is not of the form s3://bucket/prefix?region=…")
    options = _s3_options(place, url.query)
    prefix = f"{unquote(url.path)}/{under}".strip("/")
    endpoint, region, key_id, secret = map(options.get, _S3_OPTIONS)
    bucket = Bucket(url.netloc, endpoint, region, key_id, secret)
    return S3Shelf(bucket, f"{prefix}/" if prefix else "")


def _s3_options(place: str, query: str) -> dict[str, str]:
    # A plus is one, and no space: secrets have it.
    options = dict(parse_qsl(query.replace("+", "%2B")))
    if unknown := sorted(options.keys() - set(_S3_OPTIONS)):
        raise BlobRefused(f"{place}: there is no option {unknown[0]!r}; known are {', '.join(_S3_OPTIONS)}")
    if ("access_key_id" in options) != ("secret_access_key" in options):
        raise BlobRefused(f"{place}: access_key_id and secret_access_key go together")
    if not _ENDPOINT.fullmatch(options.get("endpoint", "https://s3")):
        raise BlobRefused(f"{place}: the endpoint is not of the form https://host:port")
    return options
