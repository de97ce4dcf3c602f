"""Tasks are made over HTTP: one, many, once."""

import base64
from typing import Any

import httpx2
import pytest

from tidemill.app.http import body
from tidemill.app.tokens import Role, create_token
from tidemill.store import Store
from tidemill.tasks.blobs import announce_blobs
from tidemill.tasks.order import PARAMS_BYTES
from tidemill.tasks.task import DELAYED

Client = httpx2.AsyncClient
PICKLE = base64.b64encode(b"a call").decode()


async def test_a_task_is_made_and_answered_with_where_it_is(node: Any, client: Client) -> None:
    answer = await client.post(
        "/api/v1/tasks",
        json={"queue": "demo", "params": {"text": "to be"}, "priority": 5, "description": "a test"},
    )
    seen = (await client.get(answer.headers["Location"])).json()

    assert answer.status_code == 201
    assert seen == answer.json()
    assert (seen["state"], seen["status"], seen["params"], seen["priority"]) == (
        "queued",
        -2,
        {"text": "to be"},
        5,
    )


async def test_a_list_makes_a_task_of_each_entry(node: Any, client: Client) -> None:
    answer = await client.post(
        "/api/v1/tasks", json=[{"queue": "demo", "params": {"n": n}} for n in range(5)]
    )

    ids = answer.json()["ids"]
    found = [(await node.tasking.registry.get(one))[1].params["n"] for one in ids]
    assert (answer.status_code, found) == (201, [0, 1, 2, 3, 4])


async def test_a_list_of_params_makes_a_task_of_each(node: Any, client: Client) -> None:
    answer = await client.post("/api/v1/tasks", json={"queue": "demo", "params": [{"n": 1}, {"n": 2}]})

    assert len(answer.json()["ids"]) == 2
    assert await node.tasking.registry.count() == 2


async def test_the_documents_of_a_collection_make_a_task_each(node: Any, client: Client) -> None:
    users = [{"queue": "demo", "params": {"user": user, "of": {"n": 1}}} for user in ("ada", "eve")]
    [ada, _] = (await client.post("/api/v1/tasks", json=users)).json()["ids"]
    await client.post(f"/api/v1/tasks/{ada}/cancel")
    answer = await client.post(
        "/api/v1/tasks",
        json={
            "queue": "demo",
            "params": {"again": "document.id", "who": ["document.params.user", "document.params.of.none"]},
            "collection": "tasks",
            "filter": {"status": "cancelled"},
        },
    )

    [made] = answer.json()["ids"]
    assert (await node.tasking.registry.get(made))[1].params == {"again": ada, "who": ["ada", None]}


@pytest.mark.parametrize(
    ("collection", "wanted", "names"),
    [
        ("queues", {"kind": ["function"]}, ["calls"]),
        ("queues", {"kind": "plugin"}, ["demo"]),
        ("nodes", {"alive": True}, ["alpha"]),
        ("queues", {}, None),
    ],
)
async def test_queues_and_nodes_make_tasks_too(
    node: Any, client: Client, collection: str, wanted: Any, names: list[str] | None
) -> None:
    asked = {"queue": "demo", "params": {"of": "document.name"}, "collection": collection, "filter": wanted}
    ids = (await client.post("/api/v1/tasks", json=asked)).json()["ids"]

    found = [(await node.tasking.registry.get(one))[1].params["of"] for one in ids]
    assert found == (names or ["calls", "demo"])


@pytest.mark.parametrize("moment", [4_000_000_000_000, "2096-10-02T07:06:40Z", "2096-10-02T07:06:40"])
async def test_a_task_may_have_to_wait(client: Client, moment: Any) -> None:
    made = await client.post("/api/v1/tasks", json={"queue": "demo", "not_before": moment})

    assert (made.json()["not_before"], made.json()["rank"]) == (4_000_000_000_000, DELAYED)


async def test_a_key_is_taken_until_its_task_is_deleted(client: Client) -> None:
    first = await client.post("/api/v1/tasks", json={"queue": "demo", "key": "nightly/1"})
    second = await client.post("/api/v1/tasks", json={"queue": "demo", "key": "nightly/1"})
    deleted = await client.delete("/api/v1/tasks/nightly/1")
    third = await client.post("/api/v1/tasks", json={"queue": "demo", "key": "nightly/1"})

    assert (first.status_code, deleted.status_code, third.status_code) == (201, 204, 201)
    assert (second.status_code, second.json()["code"]) == (409, "task.conflict")
    assert (second.json()["task"], second.json()["key"]) == (first.json()["id"], "nightly/1")


async def test_whoever_asks_for_many_is_told_which_were_made_when_a_key_is_taken(
    node: Any, client: Client
) -> None:
    await client.post("/api/v1/tasks", json={"queue": "demo", "key": "b"})
    answer = await client.post("/api/v1/tasks", json=[{"queue": "demo", "key": key} for key in "abc"])

    made = [(await node.tasking.registry.get(key))[0] for key in "ac"]
    assert (answer.status_code, answer.json()["key"], answer.json()["made"]) == (409, "b", made)


async def test_a_repeat_of_a_request_makes_nothing_and_is_answered_the_same(
    node: Any, client: Client
) -> None:
    for asked in ({"queue": "demo", "params": {"n": 1}}, {"queue": "demo", "key": "k"}):
        header = {"Idempotency-Key": f"once-{len(asked)}-{asked.get('key')}"}
        first = await client.post("/api/v1/tasks", json=asked, headers=header)
        await client.post(f"{first.headers['Location']}/cancel")
        again = await client.post("/api/v1/tasks", json=asked, headers=header)

        assert (first.status_code, again.status_code) == (201, 201)
        assert (again.json()["id"], again.json()["state"]) == (first.json()["id"], "cancelled")
    assert await node.tasking.registry.count() == 2


async def test_a_repeat_of_a_list_makes_nothing(node: Any, client: Client) -> None:
    asked: list[dict[str, Any]] = [{"queue": "demo"}, {"queue": "demo", "key": "k"}, {"queue": "demo"}]
    header = {"Idempotency-Key": "once"}
    first = await client.post("/api/v1/tasks", json=asked, headers=header)
    again = await client.post("/api/v1/tasks", json=asked, headers=header)

    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert await node.tasking.registry.count() == 3


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize(
    "other",
    [
        {"key": "other"},
        {"priority": 5},
        {"description": "a test"},
        {"not_before": "2096-10-02T07:06:40Z"},
        {"status": -7},
        {"batch": 3},
        {"params": {"n": 2}},
        {"params": [{"n": 1}]},
    ],
)
async def test_a_repeat_that_differs_in_anything_is_refused(
    node: Any, client: Client, key: str | None, other: dict[str, Any]
) -> None:
    header = {"Idempotency-Key": "once"}
    asked: dict[str, Any] = {"queue": "demo", "params": {"n": 1}, "key": key}
    await client.post("/api/v1/tasks", json=asked, headers=header)
    answer = await client.post("/api/v1/tasks", json=asked | other, headers=header)

    assert (answer.status_code, await node.tasking.registry.count()) == (422, 1)


async def test_a_repeat_of_a_list_that_differs_is_refused(node: Any, client: Client) -> None:
    header = {"Idempotency-Key": "once"}
    asked: list[dict[str, Any]] = [{"queue": "demo", "key": "k"}, {"queue": "demo"}]
    await client.post("/api/v1/tasks", json=asked, headers=header)
    answer = await client.post("/api/v1/tasks", json=[*asked, {"queue": "demo"}], headers=header)

    assert (answer.status_code, "Idempotency-Key 'once'" in answer.json()["detail"]) == (422, True)
    assert await node.tasking.registry.count() == 2


async def test_a_request_that_was_refused_may_be_mended_under_the_same_key(client: Client) -> None:
    header = {"Idempotency-Key": "once"}
    bad = await client.post("/api/v1/tasks", json={"queue": "demo", "params": 5}, headers=header)
    good = await client.post("/api/v1/tasks", json={"queue": "demo", "params": {"n": 5}}, headers=header)

    assert (bad.status_code, good.status_code) == (422, 201)


async def test_a_request_that_only_claims_to_be_a_repeat_is_refused(client: Client) -> None:
    header = {"Idempotency-Key": "once"}
    await client.post("/api/v1/tasks", json={"queue": "demo", "params": {"n": 1}}, headers=header)
    other = await client.post("/api/v1/tasks", json={"queue": "demo", "params": {"n": 2}}, headers=header)
    await client.post("/api/v1/tasks", json={"queue": "demo", "key": "k"})
    taken = await client.post(
        "/api/v1/tasks", json={"queue": "demo", "key": "k"}, headers={"Idempotency-Key": "x"}
    )

    by_filter = {"queue": "demo", "collection": "tasks", "filter": {}}
    unclear = await client.post("/api/v1/tasks", json=by_filter, headers={"Idempotency-Key": "y"})

    assert (other.status_code, taken.status_code, unclear.status_code) == (422, 409, 422)


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({"queue": "nosuch"}, 404, "no queue 'nosuch'"),
        ({"params": {}}, 422, "queue"),
        ({"queue": "demo", "params": "text"}, 422, "JSON object"),
        ({"queue": "demo", "params": [1]}, 422, "JSON object"),
        ({"queue": "demo", "params": {"text": "x" * PARAMS_BYTES}}, 422, "1,048,576 bytes; leave"),
        ({"queue": "demo", "key": ""}, 422, "1 to 200"),
        ({"queue": "demo", "key": "k", "params": [{}, {}]}, 422, "names one task"),
        ({"queue": "demo", "status": 1}, 422, "status must be -2"),
        ({"queue": "demo", "priority": 10_000_000}, 422, "priority"),
        ({"queue": "demo", "not_before": "soon"}, 422, "not_before"),
        ({"queue": "demo", "colour": "red"}, 422, "colour"),
        ({"queue": "demo", "collection": "tasks"}, 422, "come together"),
        ({"queue": "demo", "collection": "tokens", "filter": {}}, 422, "tokens"),
        (
            {"queue": "demo", "collection": "tasks", "filter": {"params": 1}},
            422,
            "queue, status, node, batch",
        ),
        ({"queue": "demo", "payload": PICKLE}, 422, "no `payload`"),
        ({"queue": "calls"}, 422, "need a `payload`"),
        ({"queue": "calls", "payload": "%"}, 422, "base64"),
        ({"queue": "calls", "payload": PICKLE, "batch": 1}, 422, "no `batch`"),
        ("text", 422, "no task"),
        ([{"queue": "demo"}, {}], 422, "queue"),
    ],
)
async def test_what_cannot_be_made_is_refused_and_nothing_is_made(
    node: Any, client: Client, asked: Any, status: int, said: str
) -> None:
    answer = await client.post("/api/v1/tasks", json=asked)

    assert answer.headers["Content-Type"] == "application/problem+json"
    assert (answer.status_code, said in answer.json()["detail"]) == (status, True), answer.text
    assert await node.tasking.registry.count() == 0


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe", b'{"queue": NaN}', b"[" * 100_000])
async def test_what_is_no_json_is_refused(client: Client, content: bytes) -> None:
    answer = await client.post("/api/v1/tasks", content=content)

    assert (answer.status_code, answer.json()["code"]) == (400, "http.bad_json")


async def test_bytes_that_are_no_text_are_told_with_their_place(client: Client) -> None:
    answer = await client.post("/api/v1/tasks", content=b'{"queue": "d\xe4mo"}')

    assert answer.json()["detail"] == "the request is no JSON: byte 12 (0xe4) is no UTF-8"


async def test_a_body_that_is_too_large_is_not_read(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "MOST_BYTES", 1000)

    answer = await client.post("/api/v1/tasks", json={"queue": "demo", "params": {"text": "x" * 1000}})

    assert (answer.status_code, answer.json()["code"]) == (413, "http.too_large")


@pytest.mark.parametrize(
    ("roles", "plugin", "function"),
    [
        ([Role.OPERATOR], 201, 403),
        ([Role.FUNCTION], 403, 201),
        ([Role.ADMIN], 201, 403),
        ([Role.OPERATOR, Role.FUNCTION], 201, 201),
        ([Role.VIEWER], 403, 403),
    ],
)
async def test_only_those_who_may_send_code_send_code(
    store: Store, make_client: Any, roles: list[Role], plugin: int, function: int
) -> None:
    _, secret = await create_token(store, "ci", roles)
    client = make_client(secret)

    assert (await client.post("/api/v1/tasks", json={"queue": "demo"})).status_code == plugin
    sent = await client.post("/api/v1/tasks", json={"queue": "calls", "payload": PICKLE})
    assert sent.status_code == function


async def test_a_payload_is_kept_small_or_large(client: Client, store: Store, tmp_path: Any) -> None:
    await announce_blobs(store, (tmp_path / "blobs").as_uri())
    large = b"x" * 100_000
    small = await client.post("/api/v1/tasks", json={"queue": "calls", "payload": PICKLE})
    big = await client.post(
        "/api/v1/tasks", json={"queue": "calls", "payload": base64.b64encode(large).decode()}
    )

    assert (small.json()["payload"], big.json()["payload"]["size"]) == ({"size": 6}, 100_000)
    assert (await client.get(f"{small.headers['Location']}/payload")).content == b"a call"
    assert (await client.get(f"{big.headers['Location']}/payload")).content == large
