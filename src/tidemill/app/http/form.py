"""Forms with files (`multipart/form-data`), read piece by piece, so that none is ever whole in memory."""

from collections.abc import AsyncIterator

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.requests import Request

from tidemill.app.http.problem import BadJob


class Form:
    """The fields of a form as they arrive. Pure: bytes in, named pieces out.

    Names are in lower case. The first piece of each field is empty, so that an empty field is told too.
    """

    def __init__(self, content_type: str) -> None:
        """Raises `BadJob` for what is no form with files."""
        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise BadJob("a job is sent as a form: Content-Type multipart/form-data with its boundary")
        try:
            self._parser = MultipartParser(
                options[b"boundary"],
                {
                    "on_part_begin": self._begin,
                    "on_header_field": self._header_name,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._begin_data,
                    "on_part_data": self._data,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise BadJob(f"the form cannot be read: {error}") from error
        self._pieces: list[tuple[str, bytes]] = []
        self._seen: set[str] = set()
        self._field: str | None = None
        self._header = (bytearray(), bytearray())
        self.ended = False

    def feed(self, chunk: bytes) -> list[tuple[str, bytes]]:
        """What the chunk brings of which field. Raises `BadJob` when it makes no sense."""
        try:
            self._parser.write(chunk)
        except FormParserError as error:
            raise BadJob(f"the form cannot be read: {error}") from error
        pieces, self._pieces = self._pieces, []
        return pieces

    def _begin(self) -> None:
        self._field = None
        self._header = (bytearray(), bytearray())

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._header[0].extend(data[start:end])

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._header[1].extend(data[start:end])

    def _header_end(self) -> None:
        name, value = self._header
        self._header = (bytearray(), bytearray())
        if name.lower() == b"content-disposition":
            _, options = parse_options_header(bytes(value))
            self._field = options.get(b"name", b"").decode(errors="replace").strip().lower()

    def _begin_data(self) -> None:
        if not self._field:
            raise BadJob("a part of the form has no name")
        if self._field in self._seen:
            raise BadJob(f"{self._field} is given twice")
        self._seen.add(self._field)
        self._pieces.append((self._field, b""))

    def _data(self, data: bytes, start: int, end: int) -> None:
        assert self._field is not None
        self._pieces.append((self._field, data[start:end]))

    def _end(self) -> None:
        self.ended = True


async def read_form(request: Request) -> AsyncIterator[tuple[str, bytes]]:
    """The pieces of a request's form. Raises `BadJob`, also when it breaks off, and `ClientDisconnect`."""
    form = Form(request.headers.get("Content-Type", ""))
    async for chunk in request.stream():
        for piece in form.feed(chunk):
            yield piece
    if not form.ended:
        raise BadJob("the form ends before its last boundary")
