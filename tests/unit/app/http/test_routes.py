"""What the routes answer."""

from typing import Any

import httpx2
import pytest

from tidemill.app.audit import list_entries
from tidemill.app.http import NodeView
from tidemill.app.settings import Given, resolve
from tidemill.app.settings_store import read_cluster_settings
from tidemill.app.tokens import Role, create_token
from tidemill.cluster.figures import Alarm
from tidemill.cluster.partitions import FAILED, PARTITIONS, outstanding
from tidemill.store import Store, Unavailable

Client = httpx2.AsyncClient


async def away() -> list[NodeView]:
    raise Unavailable("nobody home")


async def test_the_process_is_healthy_whatever_the_store_does(
    node: Any, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node.store, "find", away)

    assert (await client.get("/healthz")).json()["status"] == "ok"


async def test_readiness_gives_its_reasons(node: Any, client: Client) -> None:
    ready = await client.get("/readyz")
    node.troubles.append("the store does not answer")
    unready = await client.get("/readyz")

    assert (ready.status_code, ready.json()) == (200, {"ready": True, "problems": []})
    assert (unready.status_code, unready.json()["problems"]) == (503, ["the store does not answer"])


async def test_the_cluster_is_told_in_tokens(client: Client) -> None:
    body = (await client.get("/api/v1/cluster")).json()

    assert (body["node"], body["leader"], body["term"], body["cas"]) == ("token-a", "token-a", 7, 3)
    assert [entry["token"] for entry in body["nodes"]] == ["token-a", "token-b"]
    assert body["trusted"] is True


async def test_without_the_store_the_cluster_is_told_from_memory(node: Any, client: Client) -> None:
    node.nodes = away

    answer = await client.get("/api/v1/cluster")

    assert answer.status_code == 200
    assert (answer.json()["leader"], answer.json()["nodes"]) == ("token-a", [])
    assert answer.json()["problems"] == ["the node list cannot be read: nobody home"]


async def test_the_node_list_is_the_stores(node: Any, client: Client) -> None:
    assert [entry["name"] for entry in (await client.get("/api/v1/nodes")).json()["nodes"]] == [
        "alpha",
        "<b>eve</b>",
    ]
    node.nodes = away
    assert (await client.get("/api/v1/nodes")).status_code == 503


async def test_the_cluster_and_the_metrics_tell_how_far_partitions_are(store: Store, client: Client) -> None:
    await store.create(PARTITIONS, "files/a", {**outstanding("files", b""), "state": FAILED})
    await store.create(PARTITIONS, "files/b", outstanding("files", b""))
    await store.hold(PARTITIONS, ["files/b"], "token-b", 60_000)
    seen = (await client.get("/api/v1/cluster")).json()
    text = (await client.get("/metrics")).text

    [files] = seen["partitions"]
    assert (files["handler"], files["states"]["in progress"], files["held"]) == ("files", 1, {"token-b": 1})
    assert [alarm["code"] for alarm in seen["alarms"]] == ["partition.failed"]
    assert 'tidemill_partitions{handler="files",state="failed"} 1.0' in text
    assert 'tidemill_alarm{code="partition.failed"} 1.0' in text


async def test_metrics_are_told_without_partitions_while_the_store_is_away(node: Any, client: Client) -> None:
    await client.get("/metrics")
    await node.store.close()
    text = (await client.get("/metrics")).text

    assert "tidemill_term 7.0" in text
    assert "tidemill_partitions{" not in text
    assert "partition.failed" not in text


async def test_metrics_count_the_store_and_the_node(client: Client) -> None:
    text = (await client.get("/metrics")).text
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))

    assert float(lines["tidemill_store_calls_total"]) > 0
    assert float(lines["tidemill_store_conflicts_total"]) == 0
    assert float(lines["tidemill_ready"]) == 1
    assert float(lines["tidemill_term"]) == 7
    assert float(lines["tidemill_lease_renewals_total"]) == 12
    assert float(lines["tidemill_lease_age_seconds"]) == 0.25
    assert float(lines['tidemill_build_info{release="0.1.0"}']) == 1
    assert "# TYPE tidemill_lease_renewals_total counter" in text


async def test_alarms_are_told_and_counted_though_the_node_is_ready(node: Any, client: Client) -> None:
    node.raised.append(Alarm("clock.skew", "its clock is <3 s> behind the store's", "set it by NTP"))

    told = (await client.get("/api/v1/cluster")).json()["alarms"]
    text = (await client.get("/metrics")).text
    page = (await client.get("/overview")).text

    assert told == [{"code": "clock.skew", "message": node.raised[0].message, "fix": "set it by NTP"}]
    assert 'tidemill_alarm{code="clock.skew"} 1.0' in text
    assert 'tidemill_alarm{code="store.slow"} 0.0' in text
    assert "&lt;3 s&gt; behind" in page
    assert (await client.get("/readyz")).status_code == 200


async def test_settings_are_changed_by_compare_and_set(client: Client, store: Store) -> None:
    first = await client.get("/api/v1/settings")
    etag = first.headers["ETag"]
    written = await client.put("/api/v1/settings", json={"ttl_s": "8"}, headers={"If-Match": etag})
    stale = await client.put("/api/v1/settings", json={"ttl_s": 9}, headers={"If-Match": etag})
    again = await client.put(
        "/api/v1/settings", json={"slots": 3}, headers={"If-Match": written.headers["ETag"]}
    )

    assert (first.json()["cluster"], written.json()["cluster"]) == ({}, {"ttl_s": 8.0})
    assert (stale.status_code, stale.json()["code"]) == (412, "http.precondition_failed")
    assert (again.status_code, (await read_cluster_settings(store)).values) == (200, {"slots": 3})


@pytest.mark.parametrize(
    ("values", "headers", "status", "code"),
    [
        ({"ttl_s": 8}, {}, 428, "http.precondition_required"),
        ({"ttl_s": 8}, {"If-Match": "W/x"}, 412, "http.precondition_failed"),
        ({"ttl_s": 8}, {"If-Match": '"77"'}, 412, "http.precondition_failed"),
        ({"ttl_s": 0}, {"If-Match": '"0"'}, 422, "setting.value"),
        ({"prot": 0}, {"If-Match": '"0"'}, 422, "setting.unknown"),
        ({"port": 1}, {"If-Match": '"0"'}, 422, "setting.not_cluster_wide"),
        ([], {"If-Match": '"0"'}, 422, "http.invalid"),
    ],
)
async def test_settings_that_cannot_be_put_are_refused(
    client: Client, store: Store, values: Any, headers: dict[str, str], status: int, code: str
) -> None:
    answer = await client.put("/api/v1/settings", json=values, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert (await read_cluster_settings(store)).values == {}


async def test_effective_settings_tell_origins_and_no_password(node: Any, client: Client) -> None:
    node.settings = resolve([{"store": Given("postgresql://ada:hunter2@db/mill", "--store")}])

    answer = await client.get("/api/v1/settings")

    assert answer.json()["effective"]["store"] == {
        "value": "postgresql://ada:***@db/mill",
        "origin": "--store",
    }
    assert "hunter2" not in answer.text


async def test_a_token_is_made_listed_and_revoked(make_client: Any, store: Store) -> None:
    _, admin = await create_token(store, "root", [Role.ADMIN])
    client = make_client(admin)

    made = await client.post("/api/v1/tokens", json={"name": "ci", "roles": ["viewer"], "expires": "30d"})
    listed = await client.get("/api/v1/tokens")
    revoked = await client.delete(made.headers["Location"])

    secret = made.json()["secret"]
    assert (made.status_code, revoked.status_code) == (201, 204)
    assert [token["name"] for token in listed.json()["tokens"]] == ["ci", "root"]
    assert secret.startswith("tdm_")
    assert secret not in listed.text
    assert made.json()["expires"] - made.json()["created"] == 30 * 86_400_000


@pytest.mark.parametrize(
    ("method", "path", "arguments", "outcome", "detail"),
    [
        (
            "PUT",
            "/api/v1/settings",
            {"json": {"ttl_s": 8}, "headers": {"If-Match": '"0"'}},
            "done: 200",
            "ttl_s=8.0",
        ),
        ("PUT", "/api/v1/settings", {"json": {"ttl_s": 8}}, "failed: 428", None),
        (
            "POST",
            "/api/v1/tokens",
            {"json": {"name": "ci", "roles": ["viewer"]}},
            "done: 201",
            "token ci: viewer",
        ),
        ("DELETE", "/api/v1/tokens/ci", {}, "failed: 404", None),
        ("POST", "/nope", {}, "failed: 404", None),
    ],
)
async def test_every_change_is_in_the_audit_log_once_it_is_answered(
    client: Client, store: Store, method: str, path: str, arguments: Any, outcome: str, detail: str | None
) -> None:
    await client.request(method, path, **arguments)

    [entry] = [document.body for document in (await list_entries(store)).documents]
    assert (entry["who"], entry["action"], entry["target"]) == ("loopback", method, path)
    assert (entry["outcome"], entry["detail"]) == (outcome, detail)


async def test_the_audit_log_names_the_token(make_client: Any, store: Store) -> None:
    _, secret = await create_token(store, "ada", [Role.VIEWER])

    await make_client(secret).delete("/api/v1/tokens/ada")

    [entry] = [document.body for document in (await list_entries(store)).documents]
    assert (entry["who"], entry["outcome"]) == ("ada", "failed: 403")


async def test_reading_leaves_no_trace_in_the_audit_log(client: Client, store: Store) -> None:
    await client.get("/api/v1/settings")

    assert (await list_entries(store)).documents == []


async def test_what_cannot_be_recorded_is_not_done(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def create(*_: object, **__: object) -> int:
        raise Unavailable("away")

    await client.get("/api/v1/cluster")
    with monkeypatch.context() as patch:
        patch.setattr(store, "create", create)
        answer = await client.put("/api/v1/settings", json={"ttl_s": 8}, headers={"If-Match": '"0"'})

    assert answer.status_code == 503
    assert (await read_cluster_settings(store)).values == {}


async def test_the_audit_log_is_paged_newest_first(client: Client) -> None:
    for number in range(5):
        await client.delete(f"/api/v1/tokens/t{number}")

    first = (await client.get("/api/v1/audit?limit=3")).json()
    second = (await client.get("/api/v1/audit", params={"limit": 3, "cursor": first["next_cursor"]})).json()

    seen = [entry["target"] for entry in first["entries"] + second["entries"]]
    assert sorted(seen) == [f"/api/v1/tokens/t{number}" for number in range(5)]
    assert [entry["at"] for entry in first["entries"]] == sorted(
        (entry["at"] for entry in first["entries"]), reverse=True
    )
    assert second["next_cursor"] is None


async def test_the_page_shows_the_cluster_and_escapes_names(client: Client) -> None:
    page = (await client.get("/")).text

    assert "alpha" in page
    assert "&lt;b&gt;eve&lt;/b&gt;" in page
    assert "<b>eve" not in page


async def test_the_page_shows_nothing_to_a_stranger(client: Client, store: Store) -> None:
    await create_token(store, "ci", [Role.VIEWER])

    page = (await client.get("/")).text

    assert "alpha" not in page
    assert "wants a token" in page


async def test_answers_forbid_what_browsers_should_not_do(client: Client) -> None:
    for path in ("/", "/healthz", "/static/page.js", "/nope"):
        headers = (await client.get(path)).headers
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"


async def test_the_page_loads_nothing_from_elsewhere_and_runs_nothing_inline(client: Client) -> None:
    page = (await client.get("/")).text

    assert "://" not in page.replace("http://127.0.0.1:7433", "").replace("http://127.0.0.1:7434", "")
    assert "<style" not in page
    assert " on" not in page.split("<body>")[0]
    assert page.count("<script") == page.count('<script src="/static/') == 1


async def test_openapi_is_there_and_pages_with_foreign_scripts_are_not(client: Client) -> None:
    document = (await client.get("/api/openapi.json")).json()

    assert document["openapi"].startswith("3.1")
    assert {"/api/v1/cluster", "/api/v1/settings", "/api/v1/tokens", "/api/v1/audit"} <= set(
        document["paths"]
    )
    assert (await client.get("/docs")).status_code == 404
    assert (await client.get("/redoc")).status_code == 404
