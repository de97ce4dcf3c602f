"""Reading: as few requests as will do, taken up again where they break, and never a wrong byte."""

import asyncio
from dataclasses import replace

import pytest

from proxy import CuttingProxy
from servers import S3Server
from tidemill.store.blobs import BlobMissing, Blobs, BlobUnavailable
from tidemill.store.blobs.format import BLOCK_BYTES
from tidemill.store.blobs.s3 import S3Shelf
from tidemill.store.testing.blobs import sample

SIZE = 16 * BLOCK_BYTES


def test_a_small_blob_is_read_with_one_request(blobs: Blobs, s3_server: S3Server) -> None:
    ref = blobs.put("small", sample(10_000))
    s3_server.log()

    assert blobs.read(ref) == sample(10_000)
    assert len(s3_server.log()) == 1


def test_reading_on_takes_one_request_beyond_the_end(blobs: Blobs, s3_server: S3Server) -> None:
    ref = blobs.put("a", sample(SIZE))
    s3_server.log()
    with blobs.open(ref) as reader:
        content = b"".join(iter(lambda: reader.read(100_000), b""))

    assert content == sample(SIZE)
    assert [line.split()[-1].partition("-")[0] for line in s3_server.log()] == ["bytes=", "bytes=0"]


def test_a_range_is_read_without_the_rest(blobs: Blobs, s3_server: S3Server) -> None:
    ref = blobs.put("a", sample(SIZE))
    s3_server.log()

    assert blobs.read_range(ref, 5 * BLOCK_BYTES, 10) == sample(SIZE)[5 * BLOCK_BYTES :][:10]
    assert s3_server.log()[-1].endswith(f" bytes={5 * BLOCK_BYTES}-{6 * BLOCK_BYTES - 1}")


@pytest.mark.parametrize("after", [0, 300, 1_500_000])
async def test_a_download_that_breaks_goes_on_where_it_broke(
    proxied: S3Shelf, proxy: CuttingProxy, after: int
) -> None:
    blobs = Blobs(proxied)
    ref = await asyncio.to_thread(blobs.put, "a", sample(SIZE))
    proxy.lose_next_reply(b"bytes=0-", after=after)

    assert await asyncio.to_thread(blobs.read, ref) == sample(SIZE)
    assert proxy.lost == 1


async def test_the_end_of_a_blob_that_breaks_off_is_read_again(proxied: S3Shelf, proxy: CuttingProxy) -> None:
    blobs = Blobs(proxied)
    ref = await asyncio.to_thread(blobs.put, "a", sample(50_000))
    proxy.lose_next_reply(b"GET /", after=20_000)

    assert await asyncio.to_thread(blobs.read, ref) == sample(50_000)
    assert proxy.lost == 1


async def test_a_download_that_stays_cut_is_an_error_and_not_a_short_answer(
    proxied: S3Shelf, proxy: CuttingProxy
) -> None:
    blobs = Blobs(replace(proxied, bucket=replace(proxied.bucket, attempts=1)))
    ref = await asyncio.to_thread(blobs.put, "a", sample(SIZE))

    with await asyncio.to_thread(blobs.open, ref) as reader:
        assert await asyncio.to_thread(reader.read, 10) == sample(SIZE)[:10]
        reader.seek(8 * BLOCK_BYTES)
        proxy.refuse()

        with pytest.raises(BlobUnavailable):
            await asyncio.to_thread(reader.read)


def test_who_jumps_about_after_the_deletion_is_told(blobs: Blobs) -> None:
    ref = blobs.put("a", sample(SIZE))
    with blobs.open(ref) as reader:
        reader.read(10)
        blobs.delete("a")
        reader.seek(8 * BLOCK_BYTES)

        with pytest.raises(BlobMissing):
            reader.read(10)
