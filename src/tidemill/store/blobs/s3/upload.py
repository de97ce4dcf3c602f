"""Drafts of blobs in a bucket: in memory while they are small, then parts of an upload that nobody sees."""

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.store.blobs.errors import BlobError, BlobExists, BlobMissing, BlobRefused, BlobUnavailable
from tidemill.store.blobs.format import read_blocks
from tidemill.store.blobs.s3.download import MARK_BYTES
from tidemill.store.blobs.shelf import Bytes

if TYPE_CHECKING:
    from tidemill.store.blobs.s3.shelf import S3Shelf

PART_BYTES = 5 * 1024 * 1024
"""The least that S3 takes as a part other than the last."""

_MOST_PARTS = 10_000
_TURNS = 10  # of looking and trying again, when others publish and delete the same name all the time


def part_bytes(number: int) -> int:
    """The size of a part, by its number from 1: they grow, so that 10,000 parts, the most, make 260 GiB."""
    return PART_BYTES * (1 + number // 1000)


@dataclass(frozen=True, slots=True)
class Found:
    """What is published under a name: its entity tag, its digest, and the mark of who published it."""

    etag: str
    digest: str
    mark: bytes


class S3Draft:
    """A blob in the making. What a crash leaves of it are parts, which the server shows to `tidy` only."""

    def __init__(self, shelf: "S3Shelf", name: str) -> None:
        self._shelf = shelf
        self._name = name
        self._mark = os.urandom(MARK_BYTES)
        self._rest = bytearray()
        self._upload: str | None = None
        self._parts: list[dict[str, object]] = []

    def write(self, data: Bytes) -> None:
        view = memoryview(data)
        while view:
            room = part_bytes(len(self._parts) + 1) - len(self._rest)
            self._rest += view[:room]
            view = view[room:]
            if view:  # what fits one part exactly may be all there is, and goes in one request
                self._send_part()

    def publish(self, digest: str) -> None:
        self.write(self._mark)
        if self._upload is not None:
            self._send_part()
        # A small blob is sent at once, a large one after a look: not every server that keeps conditions
        # for an object also does so for an upload.
        found = None if self._upload is None else self._look()
        for _ in range(_TURNS):
            if found is not None and found.digest != digest:
                raise BlobExists(f"blob {self._name!r} exists with other content")
            try:
                self._send(found)
            except (BlobExists, BlobMissing, BlobUnavailable) as error:
                # Lost to another; or done, and only the answer was lost.
                found = self._look()
                if found is not None and found.mark == self._mark:
                    return
                if isinstance(error, BlobUnavailable):
                    raise
            else:
                return
        raise BlobUnavailable(f"cannot publish blob {self._name!r}: others change it all the time")

    def discard(self) -> None:
        self._rest.clear()
        upload, self._upload = self._upload, None
        if upload is not None:
            with suppress(BlobError):  # what cannot be removed now is left to `tidy`
                self._call("abort_multipart_upload", "discard", UploadId=upload)

    def _send(self, found: Found | None) -> None:
        """Make it visible, if what was found is what is there."""
        condition = {"IfNoneMatch": "*"} if found is None else {"IfMatch": found.etag}
        if self._upload is None:
            self._call("put_object", "publish", Body=self._rest, **condition)
        else:
            parts = {"Parts": self._parts}
            self._call(
                "complete_multipart_upload",
                "publish",
                UploadId=self._upload,
                MultipartUpload=parts,
                **condition,
            )
            self._upload = None

    def _send_part(self) -> None:
        if self._upload is None:
            self._upload = str(self._call("create_multipart_upload", "write")["UploadId"])
        number = len(self._parts) + 1
        if number > _MOST_PARTS:
            raise BlobRefused(f"blob {self._name!r} is larger than S3 takes it in {_MOST_PARTS} parts")
        answer = self._call("upload_part", "write", UploadId=self._upload, PartNumber=number, Body=self._rest)
        self._parts.append({"PartNumber": number, "ETag": answer["ETag"]})
        self._rest = bytearray()

    def _look(self) -> Found | None:
        try:
            with self._shelf.open(self._name) as stored:
                return Found(stored.etag, read_blocks(self._name, stored).digest, stored.mark)
        except BlobMissing:
            return None

    def _call(self, verb: str, doing: str, **parameters: object) -> dict[str, object]:
        key = self._shelf.key(self._name)
        return self._shelf.bucket.call(verb, f"{doing} blob {self._name!r}", Key=key, **parameters)
