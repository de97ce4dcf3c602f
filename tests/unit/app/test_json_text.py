"""What is said of JSON that is none."""

import pytest

from tidemill.app.json_text import decoded


@pytest.mark.parametrize("content", ['{"n": [1, "ü"]}', '{"n": [1, "ü"]}'.encode()])
def test_json_is_read_from_text_and_from_bytes(content: str | bytes) -> None:
    assert decoded(content) == {"n": [1, "ü"]}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"n": "a\xff"}', r"byte 8 \(0xff\) is no UTF-8"),
        (b"\xe4 and more", r"byte 0 \(0xe4\) is no UTF-8"),
        ('{"n": "a\udcff"}', r"byte 8 \(0xff\) is no UTF-8"),
        (rb'{"n": "\ud800"}', r"\\ud800 is half of a surrogate pair"),
        (rb'{"n": "\udc00"}', "surrogate"),
        (rb'{"n": "\ud83d and \ude00"}', "surrogate"),
        ('{"n": "\ud800"}', "surrogate"),
        ("{", "truncated"),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_what_is_none_is_refused_with_what_is_wrong_and_where(content: str | bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decoded(content)
