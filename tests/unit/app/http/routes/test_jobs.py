"""Jobs over HTTP: payloads in, results out."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tidemill.app.http import build_app
from tidemill.app.settings import Settings
from tidemill.app.tokens import Role, create_token
from tidemill.store import Store
from tidemill.store.blobs import INLINE_LIMIT
from tidemill.tasks.blobs import announce_blobs
from tidemill.tasks.claim import Seat, claim_of
from tidemill.tasks.order import Order
from tidemill.tasks.policy import Policy
from tidemill.tasks.queue import Queue, create_queue, get_queue
from tidemill.tasks.status import FAILED, SUCCEEDED
from tidemill.tasks.task import TASKS, Finished, body_of, move, task_of
from unit.app.conftest import URL, MakeClient, StillNode

Client = httpx2.AsyncClient
LARGE = os.urandom(3 * 1024 * 1024) + b"the end"
BATCH = {"priority": "batch"}


@pytest.fixture(autouse=True)
async def remote(store: Store, tmp_path: Path) -> None:
    """The queues `default` and `thumbs` are remote, and there is a place for blobs."""
    await create_queue(store, Queue(name="default", kind="remote"))
    await create_queue(store, Queue(name="thumbs", kind="remote", batch_size=2))
    await announce_blobs(store, f"file://{tmp_path}/blobs")


async def submit(client: Client, payload: bytes = b"a payload", path: str = "", **fields: str) -> Any:
    return await client.post(f"/api/jobs/submit{path}", files={"payload": payload}, data=BATCH | fields)


async def finish(node: StillNode, queue: str, event: Finished) -> str:
    """End the first job of the queue so."""
    found = await get_queue(node.store, queue)
    [held] = await node.store.claim(TASKS, claim_of(found, Seat("vm-1", "token-1", 60_000), 1, None))
    after = move(task_of(held), event, Policy(), await node.store.now())
    await node.store.replace(TASKS, held.key, body_of(after), expect=held.revision, release=True)
    return held.key


async def blobs_of(node: StillNode) -> list[str]:
    return [entry.name for entry in (await node.tasking.shelves.open()).entries("tasks")]


async def drafts_of(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "blobs").glob("*/+tmp/*"))


@pytest.mark.parametrize("payload", [b"", b"a payload", LARGE[: INLINE_LIMIT + 1], LARGE])
async def test_a_job_is_accepted_once_its_payload_is_kept(
    node: StillNode, client: Client, payload: bytes
) -> None:
    answer = await submit(client, payload)
    told = answer.json()
    back = await client.get(f"/api/jobs/{told['id']}/payload")

    assert answer.status_code == 202
    assert told == {"id": told["id"], "key": told["id"], "batch": 1}
    assert back.content == payload
    assert len(await blobs_of(node)) == (len(payload) > INLINE_LIMIT)


async def test_a_blob_lies_under_the_id_of_its_job(node: StillNode, client: Client) -> None:
    told = (await submit(client, LARGE)).json()

    assert await blobs_of(node) == [f"tasks/{told['id']}/payload"]


async def test_a_typed_job_has_all_that_was_said_of_it(node: StillNode, client: Client) -> None:
    fields = {"priority": "immediate", "key": "cats/1.png", "description": "a cat"}
    told = (await submit(client, b"png", "/thumbs", **fields)).json()
    seen = (await client.get("/api/jobs/cats/1.png")).json()

    assert (told["key"], told["batch"]) == ("cats/1.png", 1)
    assert (seen["id"], seen["type"], seen["queue"]) == (told["id"], "thumbs", "thumbs")
    assert (seen["priority"], seen["description"]) == (1000, "a cat")
    assert (seen["state"], seen["status"], seen["task_state"]) == ("pending", -2, "queued")


async def test_names_of_fields_are_in_any_case_and_order(client: Client) -> None:
    files: Any = {"PAYLOAD": b"content", "Key": (None, b"k"), "Priority": (None, b"Immediate")}
    answer = await client.post("/api/jobs/submit", files=files)
    seen = (await client.get("/api/jobs/k")).json()

    assert (answer.status_code, seen["priority"]) == (202, 1000)


async def test_a_key_may_come_after_a_large_payload(node: StillNode, client: Client) -> None:
    files: Any = {"payload": LARGE, "key": (None, b"late"), "priority": (None, b"batch")}
    answer = await client.post("/api/jobs/submit", files=files)
    back = (await client.get("/api/jobs/late/payload")).content
    await client.delete("/api/jobs/late")

    assert (answer.status_code, back == LARGE) == (202, True)
    assert await blobs_of(node) == []


async def test_a_payload_may_be_a_field_without_a_file_name(client: Client) -> None:
    files: Any = {"payload": (None, b"text"), "priority": (None, b"batch")}
    told = (await client.post("/api/jobs/submit", files=files)).json()

    assert (await client.get(f"/api/jobs/{told['id']}/payload")).content == b"text"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"priority": (None, b"batch")}, "payload is missing"),
    ({"payload": b"x"}, "priority is missing"),
    ({"payload": b"x", "priority": (None, b"soon")}, "must be immediate or batch"),
    ({"payload": b"x", "priority": (None, b"batch"), "description": (None, b"d" * 129)}, "128 characters"),
    ({"payload": b"x", "priority": (None, b"batch"), "key": (None, b"k" * 201)}, "1 to 200 characters"),
    ({"payload": b"x", "priority": (None, b"batch"), "key": (None, b"k" * 5000)}, "more than 4096 bytes"),
    ({"payload": b"x", "priority": (None, b"batch"), "key": (None, b"\xff")}, "no text in UTF-8"),
    ({"payload": b"x", "priority": (None, b"batch"), "colour": (None, b"red")}, "there is no field 'colour'"),
    ({"payload": LARGE, "priority": (None, b"soon")}, "must be immediate or batch"),
]


@pytest.mark.parametrize(("files", "reason"), WRONG)
async def test_what_is_wrong_is_refused_with_the_reason_and_leaves_nothing(
    node: StillNode, client: Client, tmp_path: Path, files: dict[str, Any], reason: str
) -> None:
    answer = await client.post("/api/jobs/submit", files=files)

    assert (answer.status_code, answer.json()["code"]) == (400, "job.bad_request")
    assert reason in answer.json()["detail"]
    assert await node.tasking.registry.count() == 0
    assert (await blobs_of(node), await drafts_of(tmp_path)) == ([], [])


async def test_a_field_that_comes_twice_is_refused(client: Client) -> None:
    files: Any = [("payload", b"x"), ("payload", b"y"), ("priority", (None, b"batch"))]
    answer = await client.post("/api/jobs/submit", files=files)

    assert (answer.status_code, answer.json()["detail"]) == (400, "payload is given twice")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"{}"),
        ("multipart/form-data", b""),
        ("multipart/form-data; boundary=x", b"no boundary here"),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="payload"\r\n\r\nhalf',
        ),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\nnameless\r\n--x--\r\n"),
        (f"multipart/form-data; boundary={'x' * 300}", b""),
    ],
)
async def test_what_is_no_form_is_refused(client: Client, kind: str, body: bytes) -> None:
    answer = await client.post("/api/jobs/submit", content=body, headers={"Content-Type": kind})

    assert (answer.status_code, answer.json()["code"]) == (400, "job.bad_request")


async def test_a_key_that_is_taken_is_refused_and_leaves_nothing(node: StillNode, client: Client) -> None:
    first = (await submit(client, LARGE, key="once")).json()
    again = await submit(client, LARGE[::-1], key="once")
    back = await client.get("/api/jobs/once/payload")

    assert (again.status_code, again.json()["code"]) == (400, "job.bad_request")
    assert first["id"] in again.json()["detail"]
    assert (back.content == LARGE, len(await blobs_of(node))) == (True, 1)


async def test_of_many_who_want_a_key_one_gets_it_with_its_own_payload(
    node: StillNode, client: Client
) -> None:
    payloads = [bytes([n]) * (INLINE_LIMIT + 1) for n in range(6)]
    answers = await asyncio.gather(*(submit(client, payload, key="once") for payload in payloads))
    won = [payload for payload, answer in zip(payloads, answers, strict=True) if answer.status_code == 202]
    back = await client.get("/api/jobs/once/payload")

    assert [back.content] == won
    assert len(await blobs_of(node)) == 1


async def test_an_unknown_type_is_not_found(client: Client) -> None:
    answer = await submit(client, b"x", "/nothing")

    assert (answer.status_code, answer.json()["code"]) == (404, "queue.not_found")


async def test_a_queue_that_is_not_remote_takes_no_jobs(client: Client) -> None:
    answer = await submit(client, b"x", "/calls")

    assert answer.status_code == 400
    assert "takes no jobs" in answer.json()["detail"]


async def test_a_payload_over_the_limit_is_refused_and_leaves_nothing(store: Store, tmp_path: Path) -> None:
    node = StillNode(store, Settings(payload_mb=1))
    transport = httpx2.ASGITransport(app=build_app(node))
    async with httpx2.AsyncClient(transport=transport, base_url=URL) as client:
        answer = await submit(client, LARGE)
        fits = await submit(client, LARGE[: 1024 * 1024])

    assert (answer.status_code, answer.json()["code"]) == (413, "http.too_large")
    assert fits.status_code == 202
    assert (len(await blobs_of(node)), await drafts_of(tmp_path)) == (1, [])


async def test_a_sender_who_breaks_off_leaves_nothing(node: StillNode, tmp_path: Path) -> None:
    head = b'--x\r\nContent-Disposition: form-data; name="payload"; filename="f"\r\n\r\n'
    messages = iter(
        [
            {"type": "http.request", "body": head + LARGE, "more_body": True},
            {"type": "http.disconnect"},
        ]
    )

    async def receive() -> Any:
        return next(messages)

    async def send(_: Any) -> None: ...

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/api/jobs/submit",
        "raw_path": b"/api/jobs/submit",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"multipart/form-data; boundary=x")],
    }
    await build_app(node)(scope, receive, send)

    assert await node.tasking.registry.count() == 0
    assert (await blobs_of(node), await drafts_of(tmp_path)) == ([], [])


async def test_a_repeat_with_the_same_idempotency_key_makes_nothing(node: StillNode, client: Client) -> None:
    headers = {"Idempotency-Key": "abc"}
    answers = [
        await client.post("/api/jobs/submit", files={"payload": LARGE}, data=BATCH, headers=headers)
        for _ in range(3)
    ]

    assert {answer.status_code for answer in answers} == {202}
    assert answers[0].json() == answers[1].json() == answers[2].json()
    assert (await node.tasking.registry.count(), len(await blobs_of(node))) == (1, 1)


@pytest.mark.parametrize(
    ("path", "content", "data"),
    [
        ("", b"small", BATCH),
        ("", LARGE[:-7] + b"no end!", BATCH),
        ("/thumbs", LARGE, BATCH),
        ("", LARGE, {**BATCH, "priority": "immediate"}),
        ("", LARGE, {**BATCH, "description": "other"}),
    ],
)
async def test_an_idempotency_key_that_was_used_for_another_job_is_refused(
    node: StillNode, client: Client, path: str, content: bytes, data: dict[str, str]
) -> None:
    headers = {"Idempotency-Key": "abc"}
    await client.post("/api/jobs/submit", files={"payload": LARGE}, data=BATCH, headers=headers)
    answer = await client.post(
        f"/api/jobs/submit{path}", files={"payload": content}, data=data, headers=headers
    )

    assert answer.status_code == 400
    assert "'abc' was used for another job" in answer.json()["detail"]
    assert (await node.tasking.registry.count(), len(await blobs_of(node))) == (1, 1)


async def test_every_submission_is_in_the_audit_log_with_what_came_of_it(client: Client) -> None:
    made = (await submit(client, b"x")).json()
    keyed = (await submit(client, b"x", key="cats")).json()
    assert (await submit(client, b"x", key="cats")).status_code == 400
    assert (await submit(client, b"x", priority="none")).status_code == 400

    entries = (await client.get("/api/v1/audit")).json()["entries"]
    assert sorted((one["outcome"], one["detail"]) for one in entries if "submit" in one["target"]) == [
        ("done: 202", f"job {made['id']}"),
        ("done: 202", f"job {keyed['id']}"),
        ("failed: 400", None),
        ("failed: 400", None),
    ]


async def test_a_job_without_a_key_and_its_entry_in_the_audit_log_are_one_write(
    node: StillNode, client: Client
) -> None:
    await submit(client, b"x")
    before = node.store.statistics().calls
    await submit(client, b"x")

    assert node.store.statistics().calls - before == 2  # its seat in a batch, and the two


async def test_jobs_are_listed_by_type_state_and_batch(node: StillNode, client: Client) -> None:
    for n in range(3):
        await submit(client, b"x", "/thumbs", key=f"t{n}")
    await submit(client, b"x", key="other")
    await node.tasking.registry.submit(Order(queue="demo", params={}))
    await finish(node, "thumbs", Finished(SUCCEEDED, {"base64": ""}))

    async def keys(query: str) -> list[str]:
        return [job["key"] for job in (await client.get(f"/api/jobs{query}")).json()["jobs"]]

    assert await keys("") == ["other", "t2", "t1", "t0"]
    assert await keys("?type=thumbs&state=pending") == ["t2", "t1"]
    assert await keys("?state=complete") == ["t0"]
    assert await keys("?type=thumbs&batch=2") == ["t2"]
    assert (await client.get("/api/jobs?type=demo")).status_code == 400


async def test_a_state_that_no_job_can_have_is_answered_with_those_that_it_can(client: Client) -> None:
    refused = await client.get("/api/jobs?state=fine")

    assert refused.status_code == 422
    assert "'fine', and must be one of pending, running, complete, failed, or" in refused.json()["detail"]


async def test_jobs_are_listed_a_page_at_a_time(client: Client) -> None:
    for n in range(5):
        await submit(client, b"x", key=f"k{n}")
    first = (await client.get("/api/jobs?limit=3")).json()
    rest = (await client.get("/api/jobs", params={"limit": 3, "cursor": first["next"]})).json()

    assert [job["key"] for job in first["jobs"] + rest["jobs"]] == ["k4", "k3", "k2", "k1", "k0"]
    assert rest["next"] is None


async def test_a_result_is_given_as_it_came(node: StillNode, client: Client) -> None:
    await submit(client, b"x", key="cats/1 é.png")
    shelved = await node.tasking.shelves.put("tasks/x/1/result", LARGE)
    await finish(node, "default", Finished(SUCCEEDED, shelved))
    answer = await client.get("/api/jobs/cats/1 é.png/result")
    task = await client.get("/api/v1/tasks/cats/1 é.png/result")

    assert answer.content == task.content == LARGE
    assert answer.headers["Content-Length"] == task.headers["Content-Length"] == str(len(LARGE))
    assert answer.headers["Content-Disposition"] == 'attachment; filename="cats_1__.png.result"'
    assert (await client.get("/api/jobs/cats/1 é.png")).json()["state"] == "complete"


async def test_there_is_no_result_before_the_end(client: Client) -> None:
    told = (await submit(client)).json()
    answer = await client.get(f"/api/jobs/{told['id']}/result")

    assert (answer.status_code, answer.json()["code"]) == (409, "task.illegal_move")


async def test_a_job_that_failed_has_no_result_but_a_reason(node: StillNode, client: Client) -> None:
    await submit(client)
    key = await finish(node, "default", Finished(FAILED, reason="out of paper"))
    answer = await client.get(f"/api/jobs/{key}/result")
    seen = (await client.get(f"/api/jobs/{key}")).json()

    assert answer.status_code == 404
    assert "out of paper" in answer.json()["detail"]
    assert (seen["state"], seen["status"]) == ("failed", 2)


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/api/jobs/a/b"), ("POST", "/api/jobs/a/b/delete")])
async def test_a_job_is_deleted_with_its_payload(
    node: StillNode, client: Client, method: str, path: str
) -> None:
    told = (await submit(client, LARGE, key="a/b")).json()
    answer = await client.request(method, path)

    assert (answer.status_code, answer.json()) == (202, {"deleted": told["id"]})
    assert (await client.get("/api/jobs/a/b")).status_code == 404
    assert await blobs_of(node) == []


async def test_a_task_of_another_kind_is_no_job(node: StillNode, client: Client) -> None:
    secret = Order(queue="calls", payload={"base64": "eA=="}, key="call")
    await node.tasking.registry.submit(secret)

    for path in ("/api/jobs/call", "/api/jobs/call/payload", "/api/jobs/call/result"):
        assert (await client.get(path)).status_code == 404
    assert (await client.delete("/api/jobs/call")).status_code == 404


async def test_a_job_whose_type_was_deleted_is_still_there(node: StillNode, client: Client) -> None:
    await submit(client, b"x", "/thumbs", key="cat")
    await finish(node, "thumbs", Finished(SUCCEEDED, {"base64": "eA=="}))
    await node.tasking.registry.submit(Order(queue="calls", payload={"base64": "eA=="}, key="call"))
    await node.tasking.registry.cancel("call")
    for queue in ("thumbs", "calls"):
        await node.tasking.registry.delete_queue(queue)

    assert (await client.get("/api/jobs/cat/result")).content == b"x"
    assert (await client.get("/api/jobs/call")).status_code == 404
    assert (await client.delete("/api/jobs/cat")).status_code == 202


async def test_a_producer_may_submit_and_not_look(store: Store, make_client: MakeClient) -> None:
    _, secret = await create_token(store, "feeder", [Role.PRODUCER])
    _, eyes = await create_token(store, "eyes", [Role.VIEWER])
    feeder, viewer = make_client(secret), make_client(eyes)

    assert (await submit(feeder)).status_code == 202
    assert (await feeder.get("/api/jobs")).status_code == 403
    assert (await submit(viewer)).status_code == 403
    assert (await viewer.get("/api/jobs")).status_code == 200
    assert (await viewer.delete("/api/jobs/x")).status_code == 403


async def test_a_task_of_a_remote_queue_takes_a_payload_in_base64(client: Client) -> None:
    told = (await client.post("/api/v1/tasks", json={"queue": "thumbs", "payload": "aGVsbG8="})).json()
    back = await client.get(f"/api/jobs/{told['id']}/payload")

    assert (told["batch"], back.content) == (1, b"hello")


async def test_a_payload_is_on_the_disk_while_it_arrives(
    node: StillNode, client: Client, tmp_path: Path
) -> None:
    written: list[int] = []

    async def form() -> AsyncIterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="priority"\r\n\r\nbatch\r\n'
        yield b'--x\r\nContent-Disposition: form-data; name="payload"; filename="f"\r\n\r\n'
        for _ in range(64):
            yield LARGE[: 512 * 1024]
        written.extend(draft.stat().st_size for draft in await drafts_of(tmp_path))
        yield b"\r\n--x--\r\n"

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    told = (await client.post("/api/jobs/submit", content=form(), headers=headers)).json()
    task = (await node.tasking.registry.get(told["id"]))[1]

    assert task.payload["size"] == 64 * 512 * 1024
    assert sum(written) > 62 * 512 * 1024
