import pytest

from tidemill.store.blobs import BlobDamaged, BlobFormat, BlobRef, Blobs, open_blobs

REF = BlobRef.inline(b"content")


@pytest.fixture
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Blobs:
    return open_blobs(tmp_path_factory.mktemp("blobs"), create=True)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"name": "a"},
        {"name": 1, "size": 1, "digest": REF.digest},
        {"name": "a", "size": "1", "digest": REF.digest},
        {"inline": "not base64!", "size": 7, "digest": REF.digest},
    ],
)
def test_what_is_no_reference_is_damaged(value: dict[str, object]) -> None:
    with pytest.raises(BlobDamaged):
        BlobRef.from_json(value)


def test_a_digest_of_another_format_is_refused_by_its_format() -> None:
    with pytest.raises(BlobFormat, match="format"):
        BlobRef.from_json({"name": "a", "size": 1, "digest": "2-abc"})


def test_fields_of_a_newer_release_are_ignored() -> None:
    assert BlobRef.from_json({**REF.to_json(), "compressed": True}) == REF


def test_inline_content_is_checked_as_stored_content_is(blobs: Blobs) -> None:
    wrong = BlobRef(REF.size, REF.digest, content=b"contenu")

    with pytest.raises(BlobDamaged):
        blobs.read(wrong)
    with pytest.raises(BlobDamaged):
        blobs.map(wrong)


def test_inline_and_stored_content_have_the_same_digest(blobs: Blobs) -> None:
    assert blobs.put("a", b"content").digest == REF.digest
