"""One bucket: how to reach it, its requests, and what their errors mean."""

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointResolutionError,
    InvalidRegionError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)
from urllib3.exceptions import HTTPError

from tidemill.store.blobs.errors import (
    BlobDamaged,
    BlobError,
    BlobExists,
    BlobMissing,
    BlobRefused,
    BlobUnavailable,
)

_CONNECT_S = 5
_READ_S = 30  # without a byte
_CONNECTIONS = 32

_NO_CREDENTIALS = (
    "no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use a profile or role of AWS"
)
_TAKEN = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
_MISSING = ("NoSuchKey", "404")
_REFUSED = ("NoSuchBucket", "InvalidBucketName", "ExpiredToken", "InvalidToken", "NotImplemented")


class UploadGone(BlobUnavailable):
    """The upload was completed or aborted."""


_clients: dict["Bucket", Any] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket, and what is needed to speak to it. Can be pickled: each process connects for itself.

    Without an endpoint it is Amazon's. Without a key of its own, credentials are found as all programs find
    those of AWS: in the environment, in profiles, from the role of the machine. A request is tried so many
    times in all, with pauses that grow, before it counts as failed.
    """

    name: str
    endpoint: str | None = None
    region: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    attempts: int = 5

    def call(self, verb: str, doing: str, **parameters: object) -> dict[str, Any]:
        """Make one request. Every request here may be repeated, and is, when its answer was lost.

        Raises `BlobMissing` when the object is not there, `BlobExists` when a condition does not hold,
        `BlobDamaged` when there are no bytes at the range, `BlobRefused` when the server will not have us,
        else `BlobUnavailable`.
        """
        with s3_errors(doing):
            answer: dict[str, Any] = getattr(self._client(), verb)(Bucket=self.name, **parameters)
        return answer

    def list(self, verb: str, doing: str, field: str, **parameters: object) -> Iterator[dict[str, Any]]:
        """What the request lists, over as many pages as it takes. Raises as `call` does."""
        with s3_errors(doing):
            pages = self._client().get_paginator(verb).paginate(Bucket=self.name, **parameters)
            for page in pages:
                yield from page.get(field, ())

    def _client(self) -> Any:
        with _lock:
            if self not in _clients:
                _clients[self] = self._connect()
            return _clients[self]

    def _connect(self) -> Any:
        config = Config(
            connect_timeout=_CONNECT_S,
            read_timeout=_READ_S,
            max_pool_connections=_CONNECTIONS,
            retries={"mode": "standard", "total_max_attempts": self.attempts},
            # A server under an address of its own has no domain for each bucket.
            s3={"addressing_style": "path" if self.endpoint else "auto"},
        )
        return botocore.session.get_session().create_client(
            "s3",
            region_name=self.region,
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
            config=config,
        )


def _forget_clients() -> None:
    """After a fork the connections are the parent's, and a thread that is not here may hold the lock."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    _clients.clear()


os.register_at_fork(after_in_child=_forget_clients)
logging.getLogger("botocore").setLevel(logging.INFO)  # below that it tells every header, with session tokens


@contextmanager
def s3_errors(doing: str) -> Iterator[None]:
    """Raise what goes wrong with S3 as a `BlobError`.

    The server's own words are left out, also as the cause: some servers repeat the credentials they refuse.
    """
    try:
        yield
    except ClientError as error:
        answer = error.response
        code = str(answer.get("Error", {}).get("Code", ""))
        raise _meaning(code, int(answer["ResponseMetadata"].get("HTTPStatusCode", 0)), doing) from None
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise BlobRefused(f"cannot {doing}: {_NO_CREDENTIALS}") from error
    except InvalidRegionError as error:
        raise BlobRefused(f"cannot {doing}: the region is not the name of one") from error
    except (EndpointResolutionError, ParamValidationError) as error:
        raise BlobRefused(f"cannot {doing}: no bucket or endpoint can have that name") from error
    except (BotoCoreError, HTTPError, OSError) as error:  # an answer that breaks off raises any of them
        raise BlobUnavailable(f"cannot {doing}: {type(error).__name__}") from error


def _meaning(code: str, status: int, doing: str) -> BlobError:
    if code in _TAKEN:
        return BlobExists(f"cannot {doing}: something else is there")
    if code in _MISSING:
        return BlobMissing(f"cannot {doing}: it is not there")
    if code == "NoSuchUpload":
        return UploadGone(
            f"cannot {doing}: it was discarded, or a sweep took it for abandoned; write it again"
        )
    if code == "InvalidRange":
        return BlobDamaged(f"cannot {doing}: it is shorter than it was")
    if code == "RequestTimeTooSkewed":
        return BlobUnavailable(
            f"cannot {doing}: this machine's clock is too far from that of S3; set it by NTP"
        )
    if code in _REFUSED or status in (301, 401, 403):
        return BlobRefused(f"cannot {doing}: S3 answers {code or status}")
    return BlobUnavailable(f"cannot {doing}: S3 answers {code or status}")
