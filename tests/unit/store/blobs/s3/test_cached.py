"""Remote blobs as memory, through the cache: fetched once, and never damaged."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from servers import S3Server
from tidemill.store.blobs import BlobDamaged, BlobRef, Blobs, CacheFolder, open_blobs
from tidemill.store.blobs.format import BLOCK_BYTES
from tidemill.store.blobs.s3 import S3Shelf
from tidemill.store.testing.blobs import sample

CONTENT = sample(3 * BLOCK_BYTES)


@pytest.fixture
def folder(tmp_path: Path) -> CacheFolder:
    return CacheFolder(tmp_path / "cache", 4 * len(CONTENT))


@pytest.fixture
def cached(blobs: Blobs, s3_address: str, folder: CacheFolder) -> Blobs:
    return open_blobs(s3_address, cache=folder)


@pytest.fixture
def ref(blobs: Blobs, s3_server: S3Server) -> BlobRef:
    ref = blobs.put("a", CONTENT)
    s3_server.log()
    return ref


def view(blobs: Blobs, ref: BlobRef) -> bytes:
    with blobs.map(ref) as mapped:
        return bytes(mapped.view())


def start(arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def fetches(server: S3Server) -> int:
    return sum(" bytes=0-" in line for line in server.log())


def test_threads_and_pickled_handles_fetch_once(cached: Blobs, ref: BlobRef, s3_server: S3Server) -> None:
    with ThreadPoolExecutor(4) as pool:
        seen = set(pool.map(lambda _: view(cached, ref), range(8)))

    assert seen == {CONTENT}
    assert view(pickle.loads(pickle.dumps(cached)), ref) == CONTENT
    assert fetches(s3_server) == 1


@pytest.mark.crash
def test_two_processes_fetch_once(
    cached: Blobs, ref: BlobRef, folder: CacheFolder, s3_server: S3Server, s3_address: str
) -> None:
    script = """
import sys
from pathlib import Path
from tidemill.store.blobs import CacheFolder, open_blobs
blobs = open_blobs(sys.argv[1], cache=CacheFolder(Path(sys.argv[2]), int(sys.argv[3])))
ref = blobs.find("a")
print("ready", flush=True)
sys.stdin.readline()
with blobs.map(ref) as mapped:
    print(len(mapped.view()))
"""
    arguments = [sys.executable, "-c", script, s3_address, str(folder.path), str(folder.max_bytes)]
    with start(arguments) as first, start(arguments) as second:
        both = (first, second)
        assert [process.stdout and process.stdout.readline() for process in both] == [b"ready\n"] * 2
        for process in both:
            assert process.stdin
            process.stdin.write(b"go\n")
            process.stdin.flush()
        said = [process.communicate()[0] for process in both]

    assert said == [b"%d\n" % len(CONTENT)] * 2
    assert fetches(s3_server) == 1


def test_a_damaged_download_is_not_handed_out_and_not_kept(
    cached: Blobs, ref: BlobRef, shelf: S3Shelf, folder: CacheFolder
) -> None:
    key = shelf.key("a")
    with shelf.bucket.call("get_object", "take", Key=key)["Body"] as body:
        whole = bytearray(body.read())
    whole[BLOCK_BYTES + 5] ^= 1
    shelf.bucket.call("put_object", "damage", Key=key, Body=bytes(whole))

    with pytest.raises(BlobDamaged, match="block 1"):
        view(cached, ref)
    whole[BLOCK_BYTES + 5] ^= 1
    shelf.bucket.call("put_object", "mend", Key=key, Body=bytes(whole))
    assert view(cached, ref) == CONTENT
