"""Queues, schedules, plugins, the balance and nodes on the command line."""

import json
from typing import Any

import pytest

from tidemill.cluster import LEADER, LEASES
from tidemill.cluster.nodes import advertise
from tidemill.store import Store
from tidemill.tasks.limits import change_limits, read_limits
from tidemill.tasks.order import Order
from tidemill.tasks.registry import Registry
from unit.app.cli.commands import Run, audit_entries, stored


async def enter(store: Store) -> None:
    """A node `vm-1` that leads, knows the plugin `words`, and cannot load `acme:add`."""
    leases = await store.hold(LEASES, ["node:vm-1", LEADER], "token-1", 600_000)
    plugins = {"plugins": ["words"], "broken": {"acme:add": "no acme"}}
    entry = {"address": "http://vm-1:7433", "slots": 4, **plugins}
    await advertise(store, "node:vm-1", leases["node:vm-1"].term, entry)


async def submit(store: Store) -> None:
    await Registry(store).submit(Order(queue="demo"))


@pytest.fixture
def demo(run: Run) -> None:
    """A queue `demo`."""
    assert run("queue", "create", "demo", "--plugin", "words").code == 0


def test_a_queue_is_made_looked_at_changed_and_deleted(run: Run) -> None:
    made = run(
        "queue", "create", "demo", "--plugin", "words", "--threads", "2", "--policy", '{"attempts": 3}'
    )
    changed = run("queue", "update", "demo", "--threads", "none", "--node", "vm-1", "--json")
    shown = json.loads(run("queue", "show", "demo", "--json").out)
    deleted = run("queue", "delete", "demo")

    assert (made.code, "no node that is alive has the plugin words" in made.err) == (0, True)
    assert json.loads(changed.out)["threads"] is None
    assert (shown["nodes"], shown["policy"]["attempts"], shown["queued"]) == (["vm-1"], 3, 0)
    assert (deleted.code, run("queue", "show", "demo").code) == (0, 3)
    assert [entry["action"] for entry in reversed(audit_entries())] == [
        "queue create",
        "queue update",
        "queue delete",
    ]


def test_for_how_long_ended_tasks_are_kept_is_set_and_taken_back(run: Run, demo: None) -> None:
    kept = run("queue", "update", "demo", "--keep", "604800", "--json")
    for_ever = run("queue", "update", "demo", "--keep", "none", "--json")

    assert [json.loads(done.out)["keep_s"] for done in (kept, for_ever)] == [604800.0, None]


def test_what_becomes_of_results_and_the_size_of_batches_is_set_and_changed(run: Run) -> None:
    def told(*arguments: str) -> tuple[Any, Any]:
        view = json.loads(run("queue", *arguments, "--json").out)
        return view["becomes"], view["batch_size"]

    remote = ["--kind", "remote"]
    assert told("create", "ocr", *remote, "--becomes", "") == (None, None)
    assert told("create", "scan", *remote, "--becomes", "ocr", "--batch-size", "10") == ("ocr", 10)
    assert told("update", "scan", "--batch-size", "20") == ("ocr", 20)
    assert told("update", "scan", "--becomes", "") == (None, 20)
    assert told("update", "scan", "--becomes", "ocr") == ("ocr", 20)


def test_queues_are_listed_with_their_counts(run: Run, demo: None) -> None:
    stored(submit)
    run("queue", "pause", "demo")
    lines = run("queue", "list").out.splitlines()
    run("queue", "resume", "demo")

    assert lines == [
        "name\tkind\tplugin\tthreads\tsort\tpaused\tqueued\trunning\tcompleted",
        "demo\tplugin\twords\t-\tdefault\tyes\t1\t0\t0",
    ]
    assert json.loads(run("queue", "list", "--json").out)[0]["paused"] is False


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["queue", "create", "demo", "--plugin", "words"], 4, "[queue.conflict]"),
        (["queue", "create", "new"], 2, "name and plugin are required"),
        (["queue", "create", "new", "--plugin", "words", "--threads", "-1"], 2, "non-negative"),
        (["queue", "create", "new", "--plugin", "words", "--threads", "x"], 2, "non-negative"),
        (["queue", "create", "new", "--plugin", "words", "--policy", "{"], 2, "no JSON"),
        (["queue", "create", "new", "--plugin", "words", "--keep", "59"], 2, "at least 60 seconds"),
        (["queue", "update", "demo", "--keep", "a week"], 2, "a number of seconds or none"),
        (["queue", "create", "new", "--kind", "remote", "--batch-size", "0"], 2, "batch_size must be 1 to"),
        (["queue", "create", "new", "--kind", "remote", "--becomes", "new"], 2, "becomes goes in a circle"),
        (["queue", "create", "new", "--kind", "remote", "--becomes", "demo"], 2, "no queue of kind remote"),
        (["queue", "update", "demo", "--becomes", "x"], 2, "becomes is for queues of kind remote"),
        (["queue", "update", "demo", "--batch-size", "many"], 2, "--batch-size"),
        (["queue", "update", "demo"], 2, "name something to change"),
        (["queue", "update", "nosuch", "--threads", "1"], 3, "[queue.not_found]"),
        (["queue", "delete", "demo"], 4, "[queue.in_use]"),
        (["schedule", "create", "s", "--cron", "x", "--queue", "demo"], 2, "needs five"),
        (["schedule", "create", "s", "--cron", "* * * * *", "--queue", "nosuch"], 3, "[queue.not_found]"),
        (["schedule", "show", "nosuch"], 3, "[schedule.not_found]"),
        (["schedule", "run", "nosuch"], 3, "[schedule.not_found]"),
        (["balance", "set", "{"], 2, "no JSON"),
        (["balance", "set", "absent.json"], 3, "no file absent.json"),
        (["balance", "set", '{"max_tasks": {}, "queues": [["nosuch"]]}'], 2, "no queue 'nosuch'"),
        (["node", "drain", "nosuch"], 3, "no node 'nosuch'"),
        (["node", "set", "vm-1", "--maxthreads", "-1"], 2, "non-negative"),
    ],
)
def test_a_mistake_is_told_with_its_exit_code(
    run: Run, demo: None, arguments: list[str], code: int, message: str
) -> None:
    stored(submit)

    result = run(*arguments)

    assert (result.code, result.out) == (code, "")
    assert message in result.err
    assert "Traceback" not in result.err


def test_a_schedule_is_made_looked_at_run_changed_and_deleted(run: Run, demo: None) -> None:
    cron = ["--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--params", '{"n": 1}']
    made = run("schedule", "create", "nightly", "--queue", "demo", *cron)
    moments = json.loads(run("schedule", "next", "nightly", "-n", "2", "--json").out)
    task = run("schedule", "run", "nightly").out.strip()
    run("schedule", "pause", "nightly")
    paused = run("schedule", "next", "nightly")
    run("schedule", "resume", "nightly")
    changed = run("schedule", "update", "nightly", "--cron", "0 3 * * *", "--json")
    [listed] = json.loads(run("schedule", "list", "--json").out)
    deleted = run("schedule", "delete", "nightly")

    assert (made.code, [moment["local"][10:16] for moment in moments]) == (0, ["T02:30"] * 2)
    assert json.loads(run("task", "show", task, "--json").out)["params"] == {"n": 1}
    assert paused.out == "local\tat\n"
    assert json.loads(changed.out)["cron"] == listed["cron"] == "0 3 * * *"
    assert (deleted.code, run("schedule", "show", "nightly").code) == (0, 3)


def test_what_changes_is_told_as_json_when_asked(run: Run, demo: None) -> None:
    stored(enter)
    cron = ["--cron", "30 2 * * *", "--queue", "demo"]
    balance = '{"max_tasks": {"* 07:00": 5}, "queues": [["demo"]]}'

    def told(*arguments: str) -> Any:
        result = run(*arguments, "--json")
        assert (result.code, result.err) == (0, "")
        return json.loads(result.out)

    assert told("queue", "pause", "demo")["paused"] is True
    assert told("queue", "resume", "demo")["paused"] is False
    assert told("schedule", "create", "nightly", *cron)["name"] == "nightly"
    assert told("schedule", "pause", "nightly")["paused"] is True
    assert told("schedule", "resume", "nightly")["paused"] is False
    ran = told("schedule", "run", "nightly")
    assert told("task", "show", ran["key"])["id"] == ran["id"]
    assert told("schedule", "delete", "nightly") == {"deleted": "nightly"}
    assert told("balance", "set", balance)["queues"] == [["demo"]]
    assert told("node", "drain", "vm-1")["draining"] is True
    assert told("node", "undrain", "vm-1")["draining"] is False
    assert told("node", "set", "vm-1", "--maxthreads", "3")["maxthreads"] == 3
    assert told("task", "delete", "--all", "--yes") == {"changed": 0, "refused": 1}
    run("task", "cancel", ran["id"])
    assert told("queue", "delete", "demo") == {"deleted": "demo"}


def test_a_queue_that_a_schedule_makes_tasks_for_is_not_deleted(run: Run, demo: None) -> None:
    run("schedule", "create", "nightly", "--cron", "30 2 * * *", "--queue", "demo")
    refused = run("queue", "delete", "demo")
    run("schedule", "delete", "nightly")

    assert (refused.code, "schedule 'nightly'" in refused.err) == (4, True)
    assert run("queue", "delete", "demo").code == 0


def test_the_balance_is_set_and_shown(run: Run, demo: None) -> None:
    run("queue", "create", "other", "--kind", "function")
    result = run("balance", "set", '{"max_tasks": {"* 07:00": 5}, "queues": [["demo"], ["other"]]}')
    shown = json.loads(run("balance", "show", "--json").out)

    assert result.code == 0
    assert (shown["queues"], shown["max_tasks"], shown["status"]) == (
        [["demo"], ["other"]],
        {"* 07:00": 5},
        None,
    )
    assert "queues\tdemo | other\n" in run("balance", "show").out


def test_nodes_are_listed_bounded_and_drained(run: Run, demo: None) -> None:
    stored(enter)
    run("node", "set", "vm-1", "--maxthreads", "3")
    run("node", "drain", "vm-1")
    limits = stored(lambda store: read_limits(store, "vm-1"))
    shown = json.loads(run("node", "show", "vm-1", "--json").out)
    stored(lambda store: change_limits(store, "vm-1", dead="token-1"))
    [marked] = json.loads(run("node", "list", "--json").out)
    run("node", "undrain", "vm-1")
    run("node", "set", "vm-1", "--maxthreads", "none")
    [listed] = json.loads(run("node", "list", "--json").out)

    assert (limits.maxthreads, limits.draining) == (3, True)
    assert (shown["maxthreads"], shown["draining"], shown["tasks"]) == (3, True, 0)
    assert (marked["dead"], listed["dead"]) == (True, False)
    assert (listed["maxthreads"], listed["draining"], listed["leader"]) == (None, False, True)
    assert [entry["action"] for entry in audit_entries()][:2] == ["node set", "node undrain"]


def test_plugins_are_those_of_nodes_that_are_alive(run: Run, demo: None) -> None:
    before = json.loads(run("plugin", "list", "--json").out)
    stored(enter)

    assert before == []
    assert run("plugin", "list").out == (
        'name\tnodes\tbroken\nacme:add\t-\t{"vm-1": "no acme"}\nwords\tvm-1\t-\n'
    )
    assert "no node" not in run("queue", "create", "other", "--plugin", "words").err
