from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from proxy import CuttingProxy
from servers import S3Server
from tidemill.store.blobs import Blobs, open_blobs
from tidemill.store.blobs.s3 import S3Shelf


@pytest.fixture
def blobs(s3_address: str) -> Blobs:
    return open_blobs(s3_address, create=True)


@pytest.fixture
def shelf(blobs: Blobs) -> S3Shelf:
    assert isinstance(blobs.shelf, S3Shelf)
    return blobs.shelf


@pytest.fixture
async def proxy(s3_server: S3Server) -> AsyncIterator[CuttingProxy]:
    async with CuttingProxy("127.0.0.1", s3_server.port) as proxy:
        yield proxy


@pytest.fixture
def proxied(shelf: S3Shelf, proxy: CuttingProxy) -> S3Shelf:
    """The same place, reached through the proxy."""
    endpoint = f"http://127.0.0.1:{proxy.port}"
    return replace(shelf, bucket=replace(shelf.bucket, endpoint=endpoint, attempts=3))
