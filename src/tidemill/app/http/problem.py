"""Errors as problem documents (RFC 9457): one shape for whatever goes wrong."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import Scope

from tidemill.app.errors import Forbidden, NotFound, Unauthorized
from tidemill.app.http.headers import SAFE_HEADERS
from tidemill.app.mask import masked_text
from tidemill.app.settings import SettingError
from tidemill.base.errors import TidemillError
from tidemill.base.log import get_logger
from tidemill.store import BadRequest, Conflict, OutcomeUnknown, ReleaseTooOld, StoreError, Unavailable
from tidemill.store.blobs import BlobExists, BlobMissing, BlobUnavailable
from tidemill.tasks.errors import (
    BadTask,
    IllegalMove,
    KeyTaken,
    NoSuchBatch,
    NoSuchQueue,
    NoSuchSchedule,
    NoSuchTask,
    QueueExists,
    QueueInUse,
    ScheduleExists,
)


class PreconditionFailed(TidemillError):
    """The document is not at the revision that `If-Match` names: get it again, decide again."""

    code = "http.precondition_failed"


class PreconditionRequired(TidemillError):
    """A change of this document must say in `If-Match` which revision it is based on."""

    code = "http.precondition_required"


class BadJson(TidemillError):
    """The body of the request is no JSON."""

    code = "http.bad_json"


class BadJob(TidemillError):
    """What was sent as a job cannot be one. The message says why."""

    code = "job.bad_request"


class TooLarge(TidemillError):
    """The body of the request is larger than this takes."""

    code = "http.too_large"


# The first class that fits tells the status.
_STATUS: tuple[tuple[type[TidemillError], HTTPStatus], ...] = (
    (Unauthorized, HTTPStatus.UNAUTHORIZED),
    (Forbidden, HTTPStatus.FORBIDDEN),
    *((kind, HTTPStatus.NOT_FOUND) for kind in (NotFound, NoSuchTask, NoSuchQueue, NoSuchSchedule)),
    (NoSuchBatch, HTTPStatus.NOT_FOUND),
    (BadJob, HTTPStatus.BAD_REQUEST),
    *((kind, HTTPStatus.UNPROCESSABLE_ENTITY) for kind in (SettingError, BadTask)),
    *((kind, HTTPStatus.CONFLICT) for kind in (KeyTaken, IllegalMove, QueueExists, QueueInUse)),
    *((kind, HTTPStatus.CONFLICT) for kind in (ScheduleExists, BlobExists)),
    (BlobMissing, HTTPStatus.NOT_FOUND),
    (BlobUnavailable, HTTPStatus.SERVICE_UNAVAILABLE),
    (BadJson, HTTPStatus.BAD_REQUEST),
    (TooLarge, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (PreconditionFailed, HTTPStatus.PRECONDITION_FAILED),
    (PreconditionRequired, HTTPStatus.PRECONDITION_REQUIRED),
    (Conflict, HTTPStatus.CONFLICT),
    (BadRequest, HTTPStatus.BAD_REQUEST),
    (OutcomeUnknown, HTTPStatus.GATEWAY_TIMEOUT),
    (Unavailable, HTTPStatus.SERVICE_UNAVAILABLE),
    (ReleaseTooOld, HTTPStatus.SERVICE_UNAVAILABLE),
    (StoreError, HTTPStatus.INTERNAL_SERVER_ERROR),
)
_RETRY_AFTER_S = 1

log = get_logger("tidemill.http")


def problem(scope: Scope, status: int, code: str, detail: str, **more: Any) -> JSONResponse:
    """A problem document. `retryable` says whether the same request may succeed later as it stands."""
    body = {
        "type": f"urn:tidemill:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": scope.get("path", ""),
        "code": code,
        "retryable": False,
    }
    headers = dict(SAFE_HEADERS)
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="tidemill"'
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(_RETRY_AFTER_S)
    return JSONResponse(body | more, status, headers=headers, media_type="application/problem+json")


def problem_of(scope: Scope, error: TidemillError) -> JSONResponse:
    """The problem document of an error that Tidemill can name."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus(500))
    retryable = isinstance(error, Unavailable) and not error.maybe_applied
    more = {"key": error.key, "task": error.task, "made": error.made} if isinstance(error, KeyTaken) else {}
    return problem(scope, status, error.code, masked_text(str(error)), retryable=retryable, **more)


def install_problems(app: FastAPI) -> None:
    """Let every error of the app be answered by a problem document."""
    app.add_exception_handler(TidemillError, _named)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _unexpected)


async def _named(request: HTTPConnection, error: Exception) -> JSONResponse:
    assert isinstance(error, TidemillError)
    return problem_of(request.scope, error)


async def _http(request: HTTPConnection, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = f"http.{HTTPStatus(error.status_code).name.lower()}"
    answer = problem(request.scope, error.status_code, code, str(error.detail))
    answer.headers.update(error.headers or {})
    return answer


async def _invalid(request: HTTPConnection, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    errors = [{"in": ".".join(map(str, entry["loc"])), "detail": entry["msg"]} for entry in error.errors()]
    detail = "; ".join(f"{entry['in']}: {entry['detail']}" for entry in errors)
    return problem(request.scope, HTTPStatus.UNPROCESSABLE_ENTITY, "http.invalid", detail, errors=errors)


async def _unexpected(request: HTTPConnection, error: Exception) -> JSONResponse:
    """What nobody foresaw: the log has the particulars, the caller gets none of them."""
    log.error("http.failed", path=request.scope.get("path"), error=type(error).__name__)
    detail = "something went wrong inside the node; its log says what"
    return problem(request.scope, HTTPStatus.INTERNAL_SERVER_ERROR, "http.internal_server_error", detail)
