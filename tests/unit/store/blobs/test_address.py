from pathlib import Path

import pytest

from tidemill.store.blobs import BlobFormat, BlobRefused, BlobUnavailable, open_blobs
from tidemill.store.blobs.s3 import S3Shelf


@pytest.mark.parametrize("form", ["{}", "file://{}", "file://localhost{}"])
def test_a_path_and_its_url_open_the_same_folder(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "with space"
    ref = open_blobs(folder, create=True).put("a", b"content")

    assert (
        open_blobs(form.format(str(folder).replace(" ", "%20" if "file" in form else " "))).read(ref)
        == b"content"
    )


def test_creating_twice_keeps_what_is_there(tmp_path: Path) -> None:
    ref = open_blobs(tmp_path, create=True).put("a", b"content")

    assert open_blobs(tmp_path, create=True).read(ref) == b"content"


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("", "empty"),
        ("ftp://host/x", "ftp://; known is file:///path"),
        ("file://elsewhere/x", "not of the form"),
        ("file://", "not of the form"),
        ("file:///x?y=1", "not of the form"),
        ("s3://", "not of the form"),
        ("s3://me:sesame@bucket/x", "^s3://bucket/x is not of the form"),
        ("s3://bucket/x?secret=sesame", "^s3://bucket/x: there is no option 'secret'; known are endpoint"),
        ("s3://bucket/x?secret_access_key=sesame", "^s3://bucket/x: .* go together"),
        ("s3://bucket/x?endpoint=127.0.0.1:9000", "^s3://bucket/x: the endpoint is not of the form"),
        ("s3://bucket/x?endpoint=http://me:sesame@host", "^s3://bucket/x: the endpoint is not of the form"),
        ("s3://bucket/x?endpoint=http://a%20host", "^s3://bucket/x: the endpoint is not of the form"),
        ("s3://bucket/x?endpoint=http://[::1", "^s3://bucket/x: the endpoint is not of the form"),
        ("s3://bucket/x?endpoint=http://host:99999", "no bucket or endpoint can have that name"),
        ("s3://a%20bucket/x?endpoint=http://host", "no bucket or endpoint can have that name"),
    ],
)
def test_other_addresses_are_refused_with_what_is_allowed(address: str, reason: str) -> None:
    with pytest.raises(BlobRefused, match=reason):
        open_blobs(address)


def test_a_plus_in_a_secret_stays_one(s3_address: str) -> None:
    blobs = open_blobs(s3_address.replace("sesame", "se+sa/me="), create=True)

    assert isinstance(blobs.shelf, S3Shelf)
    assert blobs.shelf.bucket.secret_access_key == "se+sa/me="


def test_a_folder_that_is_not_there_is_not_made_unless_asked(tmp_path: Path) -> None:
    with pytest.raises(BlobUnavailable, match="not a blob folder"):
        open_blobs(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


def test_a_folder_of_another_format_is_refused(tmp_path: Path) -> None:
    open_blobs(tmp_path, create=True)
    (tmp_path / "+blobs").write_bytes(b"tidemill blobs 2\n")

    with pytest.raises(BlobFormat, match="unknown to this release"):
        open_blobs(tmp_path, create=True)


@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_what_lies_under_another_name_has_nothing_to_do_with_it(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    address = str(tmp_path) if kind == "folder" else request.getfixturevalue("s3_address")
    ours, theirs = (open_blobs(address, under=name, create=True) for name in ("ours", "theirs"))
    ref = ours.put("a/b", b"x")
    theirs.put("a/b", b"y")
    theirs.delete("a/b")

    assert open_blobs(address, under="ours").read(ref) == b"x"
    assert ([entry.name for entry in ours.entries()], list(theirs.entries())) == (["a/b"], [])
