"""Blobs in a bucket, below a prefix."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from tidemill.store.blobs.errors import BlobExists, BlobFormat, BlobMissing, BlobRefused, BlobUnavailable
from tidemill.store.blobs.name import NAME_LIMIT
from tidemill.store.blobs.s3.bucket import Bucket, UploadGone, s3_errors
from tidemill.store.blobs.s3.download import S3Stored
from tidemill.store.blobs.s3.upload import S3Draft
from tidemill.store.blobs.shelf import Entry

_MARKER = "tidemill-blobs"
_MARKER_TEXT = b"tidemill blobs 1\n"
_BLOBS = "blobs/"
_KEY_LIMIT = 1024  # bytes, of S3
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class S3Shelf:
    """A shelf in a bucket, which `prepare` makes one. The prefix is empty or ends in a slash."""

    bucket: Bucket
    prefix: str = ""

    def __post_init__(self) -> None:
        if len(f"{self.prefix}{_BLOBS}".encode()) + NAME_LIMIT > _KEY_LIMIT:
            raise BlobRefused(
                f"the prefix {self.prefix[:40]!r}… leaves no room for names of {NAME_LIMIT} bytes"
            )

    def __str__(self) -> str:
        return f"s3://{self.bucket.name}/{self.prefix}"

    def prepare(self) -> None:
        """Make the prefix a place for blobs. Safe to repeat and to race.

        Raises `BlobRefused` if the server keeps no conditions: names would not hold one content for good.
        """
        if not self._put_marker():
            self.check()
        elif self._put_marker():
            raise BlobRefused(
                f"{self}: the server writes over what is there although told not to (If-None-Match)"
            )

    def check(self) -> None:
        """Raise `BlobUnavailable` unless blobs lie here, `BlobFormat` if of another format."""
        self._look()

    def now(self) -> float:
        return float(parsedate_to_datetime(self._look()).timestamp())

    def create(self, name: str, *, durable: bool = True) -> S3Draft:  # noqa: ARG002
        """What is published is durable in any case."""
        self.key(name)
        return S3Draft(self, name)

    def sync(self, names: Iterable[str]) -> None:
        with ThreadPoolExecutor(_AT_ONCE, "tidemill-s3") as pool:
            for _ in pool.map(self._head, names):
                pass

    def open(self, name: str) -> S3Stored:
        try:
            return S3Stored(self.bucket, self.key(name), name)
        except BlobMissing:
            raise self._missing(name) from None

    def entries(self, under: str) -> Iterator[Entry]:
        self.check()
        start = len(self.key(""))
        folder = self.key(f"{under}/" if under else "")
        for item in self.bucket.list("list_objects_v2", f"list {self}", "Contents", Prefix=folder):
            yield Entry(item["Key"][start:], item["Size"], item["LastModified"].timestamp())

    def delete(self, name: str, older_than: float | None = None) -> bool:
        key, doing = self.key(name), f"delete blob {name!r}"
        try:
            found = self._head(name)
            if older_than is not None and found["LastModified"].timestamp() >= older_than:
                return False
            # Published again meanwhile, it has another tag, and stays.
            condition = {} if older_than is None else {"IfMatch": found["ETag"]}
            self.bucket.call("delete_object", doing, Key=key, **condition)
        except (BlobMissing, BlobExists):
            return False
        return True

    def tidy(self, older_than: float) -> int:
        """A writer that has sent no part since `older_than` counts as gone. If it lives, it starts anew."""
        self.check()
        uploads = list(
            self.bucket.list("list_multipart_uploads", f"tidy {self}", "Uploads", Prefix=self.key(""))
        )
        return sum(self._abort_abandoned(upload, older_than) for upload in uploads)

    def key(self, name: str) -> str:
        """The key of a blob, or with "" what those of all blobs start with."""
        return f"{self.prefix}{_BLOBS}{name}"

    def _look(self) -> str:
        """Check that this is a place of blobs; what the server's clock says."""
        doing = f"open {self}"
        try:
            answer = self.bucket.call("get_object", doing, Key=self.prefix + _MARKER)
        except BlobMissing:
            raise BlobUnavailable(f"{self} is no place of blobs") from None
        with answer["Body"] as body, s3_errors(doing):
            text = body.read()
        if text != _MARKER_TEXT:
            raise BlobFormat(f"the blobs in {self} are of a format unknown to this release: {text!r:.60}")
        return str(answer["ResponseMetadata"]["HTTPHeaders"]["date"])

    def _put_marker(self) -> bool:
        """False when it is there already."""
        key = self.prefix + _MARKER
        try:
            self.bucket.call("put_object", f"create {self}", Key=key, Body=_MARKER_TEXT, IfNoneMatch="*")
        except BlobExists:
            return False
        return True

    def _abort_abandoned(self, upload: dict[str, Any], older_than: float) -> bool:
        """Remove the parts of an upload if all of them are old."""
        doing, this = f"tidy {self}", {"Key": upload["Key"], "UploadId": upload["UploadId"]}
        if upload["Initiated"].timestamp() >= older_than:
            return False
        try:
            parts = self.bucket.list("list_parts", doing, "Parts", **this)
            if any(part["LastModified"].timestamp() >= older_than for part in parts):
                return False
            self.bucket.call("abort_multipart_upload", doing, **this)
        except UploadGone:  # completed or discarded meanwhile
            return False
        return True

    def _head(self, name: str) -> dict[str, Any]:
        try:
            return self.bucket.call("head_object", f"find blob {name!r}", Key=self.key(name))
        except BlobMissing:
            raise self._missing(name) from None

    def _missing(self, name: str) -> BlobMissing:
        """The error, if the place is there and only the name is not."""
        self.check()
        return BlobMissing(f"no blob {name!r} in {self}")
