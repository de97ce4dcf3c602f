"""Reading from a bucket: the end of an object first, as it says what the rest must be, then the rest."""

import contextlib
import random
import time
from types import TracebackType
from typing import Any, Self

from tidemill.store.blobs.errors import BlobDamaged, BlobUnavailable
from tidemill.store.blobs.s3.bucket import Bucket, s3_errors
from tidemill.store.blobs.shelf import Bytes

MARK_BYTES = 16
"""What follows the stored form of a blob: the mark of its publication."""

_END_BYTES = 64 * 1024  # a small blob whole, and the block digests of one of 500 MiB
_PAUSE_S = 0.1


class S3Stored:
    """A blob of a bucket. Opening it reads its end.

    Reads that follow one another come over one connection, which also outlives the deletion of the blob, as
    long as nothing breaks it. A broken one is taken up again where it broke, so often in a row as the bucket
    has attempts.
    """

    def __init__(self, bucket: Bucket, key: str, name: str) -> None:
        self._bucket = bucket
        self._key = key
        self._doing = f"read blob {name!r}"
        self._body: Any = None
        self._at = 0  # where `_body` goes on, or where the last read ended
        self._end = b""
        self.size = 0
        self.etag = ""
        self.mark = b""
        with contextlib.suppress(BlobDamaged):  # of an object without a byte there is no end
            self._read_end()

    def read_at(self, offset: int, length: int) -> bytes:
        length = max(0, min(length, self.size - offset))
        known = self.size - len(self._end)
        if offset >= known:
            return self._end[offset - known : offset - known + length]
        data = b""
        failures = 0
        while len(data) < length:
            try:
                more = self._read(offset + len(data), length - len(data))
            except BlobUnavailable:
                self.close()
                failures += 1
                if failures >= self._bucket.attempts:
                    raise
                time.sleep(_PAUSE_S * 2**failures * random.random())
            else:
                data = data + more if data else more
                failures = 0
        return data

    def map(self, length: int) -> Bytes:
        return self.read_at(0, length)

    def close(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            body.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def _read_end(self) -> None:
        answer = self._get(f"bytes=-{_END_BYTES + MARK_BYTES}")
        with contextlib.closing(answer["Body"]) as body, s3_errors(self._doing):
            end = body.read()
        self.etag = answer["ETag"]
        # A server that knows no such ranges sends all there is, and says nothing of a range.
        whole = int(answer.get("ContentRange", f"/{len(end)}").rpartition("/")[2])
        self.size = max(0, whole - MARK_BYTES)
        self._end, self.mark = end[:-MARK_BYTES], end[-MARK_BYTES:]

    def _read(self, offset: int, most: int) -> bytes:
        """At least one of the bytes there."""
        if self._body is None or offset != self._at:
            self.close()
            # Who reads on from where the last read ended will want the rest as well.
            last = self.size - 1 if offset == self._at else offset + most - 1
            self._body = self._get(f"bytes={offset}-{last}")["Body"]
        with s3_errors(self._doing):
            data: bytes = self._body.read(most)
        if not data:
            raise BlobUnavailable(f"cannot {self._doing}: the answer ended early")
        self._at = offset + len(data)
        return data

    def _get(self, span: str) -> dict[str, Any]:
        return self._bucket.call("get_object", self._doing, Key=self._key, Range=span)
