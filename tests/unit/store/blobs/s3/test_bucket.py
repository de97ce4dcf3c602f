"""What the server refuses, what is tried again, where credentials come from, and that they stay secret."""

import logging
import pickle
import subprocess
import sys
import traceback
from dataclasses import replace

import pytest

from servers import S3Server
from tidemill.store.blobs import BlobRefused, Blobs, BlobUnavailable, open_blobs
from tidemill.store.blobs.s3 import S3Shelf

SECRET = "sesame"


def without_keys(address: str) -> str:
    return address.partition("&access_key_id")[0]


def forget_credentials(patch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        patch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        patch.setenv(name, "/dev/null")
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_a_bucket_that_does_not_exist_is_refused(s3_server: S3Server) -> None:
    address = s3_server.address("x").replace(s3_server.bucket, "another-bucket")

    for create in (True, False):
        with pytest.raises(BlobRefused, match="s3://another-bucket/x/: S3 answers NoSuchBucket"):
            open_blobs(address, create=create)


def test_a_bucket_that_vanished_is_not_an_empty_one(shelf: S3Shelf) -> None:
    blobs = Blobs(replace(shelf, bucket=replace(shelf.bucket, name="another-bucket")))

    with pytest.raises(BlobRefused):
        blobs.find("a")
    with pytest.raises(BlobRefused):
        blobs.delete("a")
    with pytest.raises(BlobRefused):
        list(blobs.entries())


@pytest.mark.parametrize("code", ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"])
def test_who_is_denied_access_is_refused_with_the_reason(
    blobs: Blobs, s3_server: S3Server, code: str
) -> None:
    s3_server.fail_next("PUT", status=403, code=code)

    with pytest.raises(BlobRefused, match=f"publish blob 'a': S3 answers {code}") as caught:
        blobs.put("a", b"content")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_clock_that_is_far_off_is_said_and_may_be_set(blobs: Blobs, s3_server: S3Server) -> None:
    s3_server.fail_next("PUT", status=403, code="RequestTimeTooSkewed")

    with pytest.raises(BlobUnavailable, match="this machine's clock is too far from that of S3"):
        blobs.put("a", b"content")


def test_without_credentials_the_error_names_what_to_set(
    s3_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_credentials(monkeypatch)

    with pytest.raises(BlobRefused, match="no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET"):
        open_blobs(without_keys(s3_address), create=True)


def test_credentials_come_from_the_environment_and_are_neither_logged_nor_pickled(
    s3_address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    forget_credentials(monkeypatch)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tests")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", SECRET)
    # Clients are kept for each address; one that nobody had before has to look for credentials.
    blobs = open_blobs(without_keys(s3_address).replace("127.0.0.1", "localhost"), create=True)

    assert blobs.read(blobs.put("a", b"content")) == b"content"
    assert SECRET.encode() not in pickle.dumps(blobs)
    assert SECRET not in caplog.text


def test_secrets_are_not_shown(blobs: Blobs, shelf: S3Shelf) -> None:
    assert SECRET not in repr(blobs) + str(shelf)


def test_a_server_that_is_busy_is_asked_again(blobs: Blobs, s3_server: S3Server) -> None:
    s3_server.fail_next("PUT", "busy")
    ref = blobs.put("busy", b"content")
    s3_server.fail_next("GET", "busy", status=500, code="InternalError")

    assert blobs.read(ref) == b"content"


def test_a_server_that_stays_busy_is_unavailable(shelf: S3Shelf, s3_server: S3Server) -> None:
    blobs = Blobs(replace(shelf, bucket=replace(shelf.bucket, attempts=2)))
    s3_server.fail_next("PUT", "busy", times=2)

    with pytest.raises(BlobUnavailable, match="S3 answers SlowDown"):
        blobs.put("busy", b"content")
    assert blobs.find("busy") is None


def test_a_server_that_is_not_there_is_unavailable(shelf: S3Shelf) -> None:
    nobody = replace(shelf.bucket, endpoint="http://127.0.0.1:9", attempts=1)

    with pytest.raises(BlobUnavailable, match="EndpointConnectionError"):
        replace(shelf, bucket=nobody).check()


@pytest.mark.crash
def test_a_process_that_forks_goes_on_in_both(blobs: Blobs, s3_address: str) -> None:
    ref = blobs.put("a", b"content")
    script = """
import os, sys
from tidemill.store.blobs import open_blobs
blobs = open_blobs(sys.argv[1])
ref = blobs.find("a")
child = os.fork()
for _ in range(20):
    assert blobs.read(ref) == b"content"
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script, s3_address], check=True, timeout=60)

    assert blobs.read(ref) == b"content"
