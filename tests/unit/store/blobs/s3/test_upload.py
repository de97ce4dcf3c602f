"""Publishing: whole or not at all, whatever breaks, and lost answers are settled by looking."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from proxy import CuttingProxy
from servers import S3Server
from tidemill.store.blobs import BlobExists, Blobs, BlobUnavailable
from tidemill.store.blobs.format import BLOCK_BYTES
from tidemill.store.blobs.s3 import Bucket, S3Shelf
from tidemill.store.blobs.s3.upload import PART_BYTES, part_bytes
from tidemill.store.testing.blobs import names, sample

LARGE = PART_BYTES + 2 * BLOCK_BYTES  # in two parts, of which the first is sent before the end
FOREVER = float("inf")


def uploads(shelf: S3Shelf) -> list[dict[str, Any]]:
    """What was begun in parts and is neither completed nor aborted."""
    return list(shelf.bucket.list("list_multipart_uploads", "list", "Uploads", Prefix=shelf.key("")))


def last_part(shelf: S3Shelf) -> float:
    """When the last part of the only upload was sent."""
    [upload] = uploads(shelf)
    place = {"Key": upload["Key"], "UploadId": upload["UploadId"]}
    parts = shelf.bucket.list("list_parts", "list", "Parts", **place)
    return max(float(part["LastModified"].timestamp()) for part in parts)


def before_completion(shelf: S3Shelf, act: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
    """Let something happen just before the next upload is completed."""
    call = type(shelf.bucket).call

    def overtaken(bucket: Bucket, verb: str, doing: str, **parameters: Any) -> Any:
        if verb == "complete_multipart_upload":
            patch.undo()
            act()
        return call(bucket, verb, doing, **parameters)

    patch.setattr(type(shelf.bucket), "call", overtaken)


def test_parts_grow_so_that_ten_thousand_hold_what_a_state_may_take() -> None:
    assert part_bytes(1) == PART_BYTES
    assert sum(map(part_bytes, range(1, 10_001))) > 250 * 1024**3


def test_a_small_blob_is_one_request(blobs: Blobs, s3_server: S3Server) -> None:
    s3_server.log()
    blobs.put("small", sample(PART_BYTES // 2))

    assert [line.split("/")[0] for line in s3_server.log()] == ["PUT "]


def test_a_large_blob_is_seen_when_it_is_whole(blobs: Blobs, shelf: S3Shelf) -> None:
    content = sample(LARGE)
    with blobs.create("large") as writer:
        writer.write(content)
        assert len(uploads(shelf)) == 1
        assert (names(blobs), blobs.find("large")) == ([], None)

    assert blobs.read(writer.ref) == content
    assert uploads(shelf) == []


def test_a_large_blob_again_is_a_success_and_another_is_refused(blobs: Blobs, shelf: S3Shelf) -> None:
    ref = blobs.put("large", sample(LARGE))

    assert blobs.put("large", sample(LARGE)) == ref
    with pytest.raises(BlobExists):
        blobs.put("large", sample(LARGE, 1))
    assert blobs.read(ref) == sample(LARGE)
    assert uploads(shelf) == []


def test_a_large_blob_that_comes_second_at_the_last_moment_is_refused(
    blobs: Blobs, shelf: S3Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = blobs.create("large")
    writer.write(sample(LARGE))
    before_completion(shelf, lambda: blobs.put("large", b"first"), monkeypatch)

    with pytest.raises(BlobExists):
        writer.publish()
    found = blobs.find("large")
    assert found
    assert blobs.read(found) == b"first"
    assert uploads(shelf) == []


def test_a_writer_that_fails_leaves_no_parts(blobs: Blobs, shelf: S3Shelf) -> None:
    writer = blobs.create("large")
    writer.write(sample(LARGE))
    with pytest.raises(ZeroDivisionError), writer:
        raise ZeroDivisionError

    assert uploads(shelf) == []


@pytest.mark.parametrize("attempts", [1, 3])
async def test_a_put_whose_answer_was_lost_is_found_to_be_done(
    proxied: S3Shelf, proxy: CuttingProxy, attempts: int
) -> None:
    blobs = Blobs(replace(proxied, bucket=replace(proxied.bucket, attempts=attempts)))
    proxy.lose_next_reply(b"needle")
    ref = await asyncio.to_thread(blobs.put, "a", b"needle")

    assert proxy.lost == 1
    assert await asyncio.to_thread(blobs.read, ref) == b"needle"


async def test_an_upload_whose_last_answer_was_lost_is_found_to_be_done(
    proxied: S3Shelf, proxy: CuttingProxy
) -> None:
    blobs = Blobs(proxied)
    proxy.lose_next_reply(b"<CompleteMultipartUpload")
    ref = await asyncio.to_thread(blobs.put, "large", sample(LARGE))

    assert proxy.lost == 1
    assert await asyncio.to_thread(blobs.read, ref) == sample(LARGE)


async def test_a_connection_cut_in_the_middle_of_a_part_is_made_up_for(
    proxied: S3Shelf, proxy: CuttingProxy
) -> None:
    blobs = Blobs(proxied)
    proxy.lose_next_request(b"partNumber=1", after=PART_BYTES // 2)
    ref = await asyncio.to_thread(blobs.put, "large", sample(LARGE))

    assert proxy.lost == 1
    assert await asyncio.to_thread(blobs.read, ref) == sample(LARGE)


async def test_a_connection_that_stays_cut_leaves_nothing_visible(
    blobs: Blobs, shelf: S3Shelf, proxied: S3Shelf, proxy: CuttingProxy
) -> None:
    cut = Blobs(replace(proxied, bucket=replace(proxied.bucket, attempts=1)))
    loop = asyncio.get_running_loop()

    async def refuse() -> None:
        proxy.refuse()

    def write() -> None:
        with cut.create("large") as writer:
            writer.write(sample(LARGE))
            asyncio.run_coroutine_threadsafe(refuse(), loop).result()
            writer.write(sample(LARGE))

    with pytest.raises(BlobUnavailable):
        await asyncio.to_thread(write)
    assert await asyncio.to_thread(names, blobs) == []
    assert await asyncio.to_thread(shelf.tidy, FOREVER) == 1
    assert await asyncio.to_thread(uploads, shelf) == []


@pytest.mark.crash
def test_a_killed_writer_leaves_nothing_visible_and_a_sweep_removes_its_parts(
    blobs: Blobs, shelf: S3Shelf, s3_address: str
) -> None:
    script = f"""
import sys
from tidemill.store.blobs import open_blobs
with open_blobs(sys.argv[1]).create("large") as writer:
    writer.write(bytes({LARGE}))
    print("ready", flush=True)
    sys.stdin.read()
"""
    arguments = [sys.executable, "-c", script, s3_address]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    written = last_part(shelf)

    assert (names(blobs), blobs.find("large")) == ([], None)
    assert blobs.sweep((), grace_s=60, now=written + 59).drafts == 0
    assert blobs.sweep((), grace_s=60, now=written + 61).drafts == 1
    assert uploads(shelf) == []


def test_a_writer_that_was_swept_away_is_told_to_start_anew(
    blobs: Blobs, shelf: S3Shelf, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sweep() -> None:
        assert shelf.tidy(FOREVER) == 1
        # What S3 says of an upload that is gone; moto does not know what to say.
        s3_server.fail_next("POST", "uploadId", status=404, code="NoSuchUpload")

    writer = blobs.create("large")
    writer.write(sample(LARGE))
    before_completion(shelf, sweep, monkeypatch)

    with pytest.raises(BlobUnavailable, match="took it for abandoned; write it again"):
        writer.publish()
    assert names(blobs) == []


def test_who_has_sent_a_part_lately_is_not_swept_away(blobs: Blobs, shelf: S3Shelf) -> None:
    with blobs.create("large") as writer:
        writer.write(sample(LARGE))
        [upload] = uploads(shelf)
        assert upload["Initiated"].timestamp() < last_part(shelf)

        assert shelf.tidy(last_part(shelf)) == 0
