"""An S3 that tests run against: moto, which answers one request at a time, and fails when told to.

Run as a program it prints its port, and serves until it is killed. Beside S3 it has addresses of its own:
`POST /+fail` with `{"times", "method", "containing", "status", "code"}`; `POST /+fill` with
`{"bucket", "keys"}`, which puts empty objects; `GET /+log`, which gives the requests since the last look.
"""

import io
import json
import threading
from collections.abc import Iterable
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server


class S3App:
    """Requests are carried out one after the other, as moto looks at a condition before it acts on it."""

    def __init__(self) -> None:
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()
        self._log: list[str] = []
        self._fail: dict[str, Any] = {"times": 0}

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length)
        environ["wsgi.input"] = io.BytesIO(body)
        with self._lock:
            if len(body) < length:  # the client broke off: S3 takes all of an object or nothing
                return self._say(start_response, 400, "IncompleteBody")
            return self._answer(environ, start_response, body)

    def _answer(self, environ: dict[str, Any], start_response: Any, body: bytes) -> Iterable[bytes]:
        match environ["PATH_INFO"]:
            case "/+fail":
                self._fail = json.loads(body)
                return self._say(start_response, 200, "")
            case "/+fill":
                fill = json.loads(body)
                for key in fill["keys"]:
                    s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(fill["bucket"], key, b"")
                return self._say(start_response, 200, "")
            case "/+log":
                log, self._log = self._log, []
                start_response("200 OK", [("Content-Type", "application/json")])
                return [json.dumps(log).encode()]
        path = environ["PATH_INFO"] + "?" + environ["QUERY_STRING"]
        line = f"{environ['REQUEST_METHOD']} {path} {environ.get('HTTP_RANGE', '')}"
        self._log.append(line.strip())
        fail = self._fail
        if fail["times"] and fail["method"] in line and fail["containing"] in line:
            fail["times"] -= 1
            return self._say(start_response, fail["status"], fail["code"])
        return [b"".join(self._moto(environ, start_response))]

    def _say(self, start_response: Any, status: int, code: str) -> Iterable[bytes]:
        text = f"<Error><Code>{code}</Code><Message>told to</Message></Error>".encode()
        start_response(
            f"{status} said", [("Content-Type", "application/xml"), ("Content-Length", str(len(text)))]
        )
        return [text]


class Handler(WSGIRequestHandler):
    """Connections stay open from request to request, as those of S3 do."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nobody reads it."""


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, S3App(), threaded=True, request_handler=Handler)
    print(server.port, flush=True)
    server.serve_forever()
