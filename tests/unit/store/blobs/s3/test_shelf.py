"""The place itself: making one, listing more than a page, and deleting only what nobody published again."""

import time
from dataclasses import dataclass
from typing import Any

import pytest

from servers import S3Server
from tidemill.store.blobs import BlobFormat, BlobRefused, Blobs, BlobUnavailable, open_blobs
from tidemill.store.blobs.s3 import S3Shelf
from tidemill.store.testing.blobs import names


def test_what_is_no_place_of_blobs_is_not_made_one_unless_asked(s3_address: str) -> None:
    for _ in range(2):
        with pytest.raises(BlobUnavailable, match="is no place of blobs"):
            open_blobs(s3_address)


def test_making_it_twice_keeps_what_is_there(blobs: Blobs, s3_address: str) -> None:
    ref = blobs.put("a", b"content")

    assert open_blobs(s3_address, create=True).read(ref) == b"content"


def test_a_place_of_another_format_is_refused(shelf: S3Shelf, s3_address: str) -> None:
    shelf.bucket.call("put_object", "put", Key=f"{shelf.prefix}tidemill-blobs", Body=b"tidemill blobs 2\n")

    for create in (True, False):
        with pytest.raises(BlobFormat, match="unknown to this release"):
            open_blobs(s3_address, create=create)


def test_a_server_that_keeps_no_conditions_is_refused(shelf: S3Shelf) -> None:
    class Careless(S3Shelf):
        def _put_marker(self) -> bool:
            return True

    with pytest.raises(BlobRefused, match="writes over what is there"):
        Careless(shelf.bucket, "careless/").prepare()


def test_a_prefix_leaves_room_for_names(shelf: S3Shelf) -> None:
    with pytest.raises(BlobRefused, match="leaves no room"):
        S3Shelf(shelf.bucket, "x" * 600 + "/")


def test_a_listing_goes_on_over_its_pages(blobs: Blobs, shelf: S3Shelf, s3_server: S3Server) -> None:
    s3_server.fill([shelf.key(f"many/{number}") for number in range(2_005)])
    s3_server.log()

    assert len(names(blobs, "many")) == 2_005
    assert sum("list-type=2" in line for line in s3_server.log()) == 3


def test_what_is_published_again_while_a_sweep_looks_is_spared(shelf: S3Shelf) -> None:
    @dataclass(frozen=True, slots=True)
    class Crossed(S3Shelf):
        def _head(self, name: str) -> dict[str, Any]:
            found = S3Shelf._head(self, name)
            Blobs(shelf).put(name, b"content")
            return found

    blobs = Blobs(Crossed(shelf.bucket, shelf.prefix))
    ref = blobs.put("a", b"content")

    assert blobs.sweep((), grace_s=0, now=time.time() + 60).names == ()
    assert blobs.read(ref) == b"content"


def test_publishing_again_makes_a_blob_young(blobs: Blobs) -> None:
    blobs.put("a", b"content")
    [before] = blobs.entries()
    while time.time() < before.published_at + 1:  # the server may count in whole seconds
        pass
    blobs.put("a", b"content")
    [after] = blobs.entries()

    assert after.published_at > before.published_at
