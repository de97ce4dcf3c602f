"""Schedules and the balance of queues over HTTP."""

from typing import Any

import httpx2
import pytest

from tidemill.app.kinds import Balance
from tidemill.app.settings import Settings
from tidemill.store import Store

Client = httpx2.AsyncClient
NIGHTLY = {
    "name": "nightly",
    "cron": "30 2 * * *",
    "queue": "demo",
    "zone": "Europe/Berlin",
    "params": {"n": 1},
}


async def test_a_schedule_is_made_looked_at_changed_and_deleted(client: Client) -> None:
    made = await client.post("/api/v1/schedules", json=NIGHTLY)
    listed = (await client.get("/api/v1/schedules")).json()["schedules"]
    changed = await client.patch(
        made.headers["Location"], json={"cron": "0 3 * * *"}, headers={"If-Match": made.headers["ETag"]}
    )
    stale = await client.patch(
        made.headers["Location"], json={"cron": "0 4 * * *"}, headers={"If-Match": made.headers["ETag"]}
    )
    seen = (await client.get("/api/v1/schedules/nightly")).json()
    deleted = await client.delete("/api/v1/schedules/nightly")

    assert (made.status_code, changed.status_code, stale.status_code, deleted.status_code) == (
        201,
        200,
        412,
        204,
    )
    assert [schedule["name"] for schedule in listed] == ["nightly"]
    assert (seen["cron"], seen["params"], seen["missed"]) == ("0 3 * * *", {"n": 1}, "catch_up")
    assert (await client.get("/api/v1/schedules/nightly")).json()["code"] == "schedule.not_found"


async def test_a_schedule_tells_its_next_moments_unless_it_is_paused(client: Client) -> None:
    await client.post("/api/v1/schedules", json=NIGHTLY)
    moments = (await client.get("/api/v1/schedules/nightly/next?n=3")).json()["next"]
    await client.post("/api/v1/schedules/nightly/pause")
    none = (await client.get("/api/v1/schedules/nightly/next")).json()["next"]
    await client.post("/api/v1/schedules/nightly/resume")
    five = (await client.get("/api/v1/schedules/nightly/next")).json()["next"]

    assert [moment["local"][10:19] for moment in moments] == ["T02:30:00"] * 3
    assert moments[0]["at"] < moments[1]["at"] < moments[2]["at"]
    assert (none, len(five)) == ([], 5)


async def test_a_schedule_is_run_now_once_for_each_request(node: Any, client: Client) -> None:
    await client.post("/api/v1/schedules", json=NIGHTLY)
    header = {"Idempotency-Key": "today"}
    first = await client.post("/api/v1/schedules/nightly/run", headers=header)
    again = await client.post("/api/v1/schedules/nightly/run", headers=header)
    other = await client.post("/api/v1/schedules/nightly/run")
    task = (await client.get(first.headers["Location"])).json()

    assert (first.status_code, first.json() == again.json()) == (201, True)
    assert first.json()["id"] != other.json()["id"]
    assert (task["id"], task["params"], task["parent"]) == (first.json()["id"], {"n": 1}, "schedule:nightly")
    assert await node.tasking.registry.count() == 2


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"cron": "every day"}, 422, "task.bad_request"),
        ({"cron": "61 * * * *"}, 422, "task.bad_request"),
        ({"zone": "Mars/Olympus"}, 422, "task.bad_request"),
        ({"queue": "nosuch"}, 404, "queue.not_found"),
        ({"name": "a/b"}, 422, "task.bad_request"),
        ({"colour": "red"}, 422, "task.bad_request"),
        ({"last": 0}, 422, "task.bad_request"),
        ({"params": [1]}, 422, "task.bad_request"),
    ],
)
async def test_a_schedule_that_cannot_be_is_refused(
    client: Client, changes: Any, status: int, code: str
) -> None:
    answer = await client.post("/api/v1/schedules", json={**NIGHTLY, **changes})

    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_a_name_is_taken_and_nothing_is_no_change(client: Client) -> None:
    await client.post("/api/v1/schedules", json=NIGHTLY)
    twice = await client.post("/api/v1/schedules", json=NIGHTLY)
    nothing = await client.patch("/api/v1/schedules/nightly", json={})
    absent = await client.patch("/api/v1/schedules/daily", json={"cron": "0 3 * * *"})

    assert (twice.status_code, twice.json()["code"]) == (409, "schedule.conflict")
    assert (nothing.status_code, absent.status_code) == (422, 404)


async def test_the_balance_is_set_and_told(node: Any, client: Client) -> None:
    node.settings = Settings(balance=Balance(enabled=True, pretend=True))
    wanted = {"max_tasks": {"* 07:00": 5, "6 07:00": "15"}, "queues": [["demo"], ["calls"]]}
    before = await client.get("/api/v1/balance")
    answer = await client.post("/api/v1/balance", json=wanted)
    seen = (await client.get("/api/v1/balance")).json()
    stale = await client.post("/api/v1/balance", json=wanted, headers={"If-Match": '"1"'})

    assert (before.json()["queues"], before.headers["ETag"]) == ([], '"0"')
    assert answer.json() == {"status": "success: queuebalance modified"}
    assert (seen["queues"], seen["max_tasks"]) == ([["demo"], ["calls"]], {"* 07:00": 5, "6 07:00": 15})
    assert (seen["known_queues"], seen["settings"]["pretend"]) == (["calls", "demo"], True)
    assert (seen["status"], stale.status_code) == ("CRITICAL", 412)


@pytest.mark.parametrize(
    "wanted",
    [
        [],
        {},
        {"max_tasks": {}, "queues": [["nosuch"]]},
        {"max_tasks": {}, "queues": [["demo"], ["demo"]]},
        {"max_tasks": {"9 07:00": 1}, "queues": []},
        {"max_tasks": {"* 07:00": -1}, "queues": []},
        {"max_tasks": {}, "queues": [], "disabled": 1},
    ],
)
async def test_a_balance_that_cannot_be_is_refused(client: Client, wanted: Any) -> None:
    answer = await client.post("/api/v1/balance", json=wanted)

    assert (answer.status_code, answer.json()["code"]) == (422, "task.bad_request")
    assert answer.json()["detail"].startswith("failed: invalid json passed")


async def test_openapi_describes_what_these_routes_take(client: Client, store: Store) -> None:
    paths = (await client.get("/api/openapi.json")).json()["paths"]

    assert "requestBody" in paths["/api/v1/schedules"]["post"]
    assert "oneOf" in str(paths["/api/v1/tasks"]["post"]["requestBody"])
    assert {"post", "patch", "get", "delete"} <= set(paths["/api/v1/queues/{queue}"])
