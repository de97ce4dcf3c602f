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
_PIECE_BYTES = 1024 * 1024  # what breaks off loses no more than this
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
        return self._read_exactly(offset, length)

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
        length = answer["ContentLength"]
        # A server that knows no such ranges sends all there is, and says nothing of a range.
        whole = int(answer.get("ContentRange", f"/{length}").rpartition("/")[2])
        self._body, self._at = answer["Body"], whole - length
        end = self._read_exactly(self._at, length)
        self._end, self.mark = end[:-MARK_BYTES], end[-MARK_BYTES:]
        self.size = max(0, whole - MARK_BYTES)
        self.etag = answer["ETag"]
        self.close()
        self._at = 0

    def _read_exactly(self, offset: int, length: int) -> bytes:
        pieces: list[bytes] = []
        stop = offset + length
        while offset < stop:
            piece = self._read(offset, stop - offset)
            pieces.append(piece)
            offset += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _read(self, offset: int, most: int) -> bytes:
        """At least one of the bytes there."""
        for failures in range(1, self._bucket.attempts + 1):
            if self._body is None or offset != self._at:
                self.close()
                # Who reads on from where the last read ended will want the rest as well.
                stop = max(self.size, offset + most) if offset == self._at else offset + most
                self._body = self._get(f"bytes={offset}-{stop - 1}")["Body"]
                self._at = offset
            with contextlib.suppress(BlobUnavailable), s3_errors(self._doing):
                data: bytes = self._body.read(min(most, _PIECE_BYTES))
                if data:
                    self._at = offset + len(data)
                    return data
            self.close()
            time.sleep(_PAUSE_S * 2**failures * random.random())
        raise BlobUnavailable(f"cannot {self._doing}: the answer breaks off, again and again")

    def _get(self, span: str) -> dict[str, Any]:
        return self._bucket.call("get_object", self._doing, Key=self._key, Range=span)
