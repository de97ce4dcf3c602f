"""Forms are read the same however they are cut into pieces."""

import pytest

from tidemill.app.http.form import Form
from tidemill.app.http.problem import BadJob

TYPE = 'multipart/form-data; boundary="cut"'
PAYLOAD = b"\r\n--cu\r\n--cutt\r--cut\n" * 3 + bytes(range(256))
BODY = (
    b'--cut\r\ncontent-disposition: form-data; name="Payload"; filename="a\\"b.bin"\r\n'
    b"Content-Type: application/octet-stream\r\n\r\n" + PAYLOAD + b"\r\n"
    b"--cut\r\nContent-Disposition: form-data; name=key\r\n\r\n\r\n"
    b"--cut--\r\nwhat comes after the end counts for nothing"
)


def read(size: int) -> tuple[dict[str, bytes], bool]:
    form = Form(TYPE)
    fields: dict[str, bytes] = {}
    for at in range(0, len(BODY), size):
        for name, piece in form.feed(BODY[at : at + size]):
            fields[name] = fields.get(name, b"") + piece
    return fields, form.ended


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 16, 61, 1000, len(BODY)])
def test_fields_are_whole_however_the_form_is_cut(size: int) -> None:
    assert read(size) == ({"payload": PAYLOAD, "key": b""}, True)


@pytest.mark.parametrize("at", range(0, BODY.index(b"--cut--") + 6, 13))
def test_a_form_that_breaks_off_has_not_ended(at: int) -> None:
    form = Form(TYPE)
    form.feed(BODY[:at])

    assert not form.ended


@pytest.mark.parametrize(
    "part",
    [
        b"--cut\r\n" + b"H: v\r\n" * 1000 + b"\r\n",
        b"--cut\r\nX-Long: " + b"v" * 100_000,
        b"--cut\r\nbad header: v\r\n\r\n",
        b"--cut\r\nContent-Disposition: form-data\r\n\r\nx",
        b"nonsense",
    ],
)
def test_what_makes_no_sense_is_refused(part: bytes) -> None:
    with pytest.raises(BadJob):
        Form(TYPE).feed(part)
