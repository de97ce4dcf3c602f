"""Every error is a problem document."""

from typing import Any

import httpx2
import pytest

from tidemill.app.http import build_app, require
from tidemill.app.tokens import Role
from tidemill.store import (
    BadRequest,
    Conflict,
    Fenced,
    OutcomeUnknown,
    ReadOnly,
    ReleaseTooOld,
    Unavailable,
)
from tidemill.store.blobs import BlobMissing
from tidemill.tasks.errors import (
    BadTask,
    IllegalMove,
    NoSuchQueue,
    NoSuchSchedule,
    NoSuchTask,
    QueueExists,
    QueueInUse,
    ScheduleExists,
)

MEMBERS = {"type", "title", "status", "detail", "instance", "code", "retryable"}


async def failing(node: Any, error: Exception) -> httpx2.Response:
    """The answer of a route that raises."""
    app = build_app(node)

    @app.get("/fail", dependencies=[require(Role.VIEWER)])
    async def fail() -> None:
        raise error

    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.get("/fail")


@pytest.mark.parametrize(
    ("error", "status", "code", "retryable"),
    [
        (Conflict("first come"), 409, "store.conflict", False),
        (Fenced("passed on"), 409, "store.fenced", False),
        (BadRequest("no"), 400, "store.bad_request", False),
        (Unavailable("away: postgresql://ada:hunter2@db/mill"), 503, "store.unavailable", True),
        (Unavailable("away", maybe_applied=True), 503, "store.unavailable", False),
        (ReadOnly("full"), 503, "store.read_only", True),
        (NoSuchTask("no"), 404, "task.not_found", False),
        (NoSuchQueue("no"), 404, "queue.not_found", False),
        (NoSuchSchedule("no"), 404, "schedule.not_found", False),
        (IllegalMove("no"), 409, "task.illegal_move", False),
        (QueueExists("no"), 409, "queue.conflict", False),
        (QueueInUse("no"), 409, "queue.in_use", False),
        (ScheduleExists("no"), 409, "schedule.conflict", False),
        (BadTask("no"), 422, "task.bad_request", False),
        (BlobMissing("no"), 404, "blob.missing", False),
        (ReleaseTooOld("old"), 503, "store.release_too_old", False),
        (OutcomeUnknown("who knows"), 504, "store.unknown", False),
        (ZeroDivisionError("hunter2"), 500, "http.internal_server_error", False),
    ],
)
async def test_an_error_becomes_its_problem(
    node: Any, error: Exception, status: int, code: str, retryable: bool
) -> None:
    answer = await failing(node, error)
    body = answer.json()

    assert answer.headers["Content-Type"] == "application/problem+json"
    assert set(body) == MEMBERS
    assert (answer.status_code, body["status"], body["code"], body["retryable"]) == (
        status,
        status,
        code,
        retryable,
    )
    assert body["instance"] == "/fail"
    assert ("Retry-After" in answer.headers) == (status == 503)
    assert "hunter2" not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nope", 404, "http.not_found"),
        ("POST", "/api/v1/cluster", 405, "http.method_not_allowed"),
        ("GET", "/api/v1/audit?limit=0", 422, "http.invalid"),
        ("GET", "/api/v1/audit?cursor=nonsense", 400, "store.bad_request"),
        ("DELETE", "/api/v1/tokens/nobody", 404, "not_found"),
    ],
)
async def test_a_request_that_cannot_be_met_becomes_a_problem(
    client: httpx2.AsyncClient, method: str, path: str, status: int, code: str
) -> None:
    answer = await client.request(method, path)

    assert answer.headers["Content-Type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_what_is_wrong_with_a_body_is_listed(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/api/v1/tokens", json={"roles": ["king"]})

    assert answer.status_code == 422
    assert {entry["in"] for entry in answer.json()["errors"]} == {"body.name", "body.roles.0"}


async def test_also_an_unforeseen_error_carries_the_safe_headers(node: Any) -> None:
    answer = await failing(node, ZeroDivisionError())

    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
