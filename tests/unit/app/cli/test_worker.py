"""Workers on the command line."""

import asyncio
import http
import json
import os
import signal
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from tidemill.cluster import LEASES
from tidemill.cluster.nodes import advertise
from tidemill.store import Store
from tidemill.tasks.remote.roster import WORKERS, Seen, Worker, asked_to_leave, worker_key
from tidemill.worker import wire
from unit.app.cli.commands import Run, audit_entries, stored
from unit.worker.nodes import Node, Visit, ends, node


@asynccontextmanager
async def worker(played: Node, *arguments: str) -> AsyncIterator[Process]:
    command = [sys.executable, "-m", "tidemill", "worker", "run", played.url, "--queue", "shout", *arguments]
    environment = os.environ | {"TIDEMILL_TOKEN": "secret"}
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=DEVNULL, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def greeted(played: Node) -> Visit:
    visit = await played.visit()
    await visit.greet()
    assert await visit.hear() == wire.Status(wire.READY)
    return visit


async def test_a_worker_runs_its_program_and_finishes_after_a_signal(tmp_path: Path) -> None:
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    async with (
        node() as played,
        worker(played, "--exec", f"sh -c 'echo progress: 7 >&2; cat {fifo}'") as process,
    ):
        visit = await greeted(played)
        ref = await visit.give("one", b"text")
        assert await visit.hear() == wire.Progress(7, None, "one", 1)
        process.send_signal(signal.SIGTERM)
        assert await visit.hear() == wire.Status(wire.BUSY)
        await asyncio.to_thread(fifo.write_bytes, b"done")

        assert await visit.hear() == wire.Result("one", 1, content=wire.inline(b"done"))
        await visit.settle(ref)
        assert await visit.gone() == 1000
        assert await asyncio.wait_for(process.wait(), 30) == 0


async def test_a_second_signal_ends_it_at_once_with_its_program(tmp_path: Path) -> None:
    script = """trap "" TERM; echo "progress: pid $$" >&2; while :; do sleep 1000; done"""
    async with node() as played, worker(played, "--exec", f"sh -c '{script}'") as process:
        visit = await greeted(played)
        await visit.give("one", b"text")
        pid = int((await visit.hear()).info.removeprefix("pid "))
        process.send_signal(signal.SIGINT)
        assert await visit.hear() == wire.Status(wire.BUSY)
        process.send_signal(signal.SIGINT)

        assert await asyncio.wait_for(process.wait(), 30) == 130
        assert ends(pid)


async def test_a_refused_worker_ends_with_5_and_the_reason() -> None:
    async with node() as played, worker(played, "--exec", "cat", "--name", "vm", "--id", "vm-1") as process:
        visit = await played.visit()
        assert await visit.hear() == wire.Registered("vm", "vm-1", "secret")
        await visit.close(1008, "the token opens nothing")
        _, said = await asyncio.wait_for(process.communicate(), 30)

        assert process.returncode == 5
        assert said == b"error: the token opens nothing [worker.refused]\n"


async def test_how_to_end_it_is_said_once_a_node_has_let_it_in() -> None:
    async with node() as played, worker(played, "--exec", "cat", "--log-level", "error") as process:
        for _ in range(2):
            await (await greeted(played)).close(1012, "restarting")
        await greeted(played)
        process.send_signal(signal.SIGTERM)
        _, said = await asyncio.wait_for(process.communicate(), 30)

        assert said.decode().splitlines() == [
            "worker of queue shout; Ctrl-C lets it finish its jobs, a second one ends it at once"
        ]


async def test_an_address_without_a_door_for_workers_is_wrong_usage() -> None:
    def respond(connection: ServerConnection, _: Request) -> Response:
        return connection.respond(http.HTTPStatus.FORBIDDEN, "")

    async with node(process_request=respond) as played, worker(played, "--exec", "cat") as process:
        _, said = await asyncio.wait_for(process.communicate(), 30)

        assert process.returncode == 2
        assert b"error: there is no door for workers at ws://" in said
        assert b"/api/worker/shout (HTTP 403 Forbidden)" in said


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("localhost:7433", "--exec", "cat"), "did you mean 'http://localhost:7433'? [worker.bad_address]"),
        (("http://localhost", "--exec", "no-such-program"), "[worker.bad_program]"),
        (("http://localhost", "--exec", "cat", "--plain", "--slots", "2"), "--plain takes one job at a time"),
        (("http://localhost", "--exec", "cat", "--log-level", "loud"), "--log-level is"),
        (("http://localhost", "--exec", "cat", "--ca", "nowhere.pem"), "[worker.bad_address]"),
        (("http://localhost",), "--exec"),
    ],
)
def test_what_cannot_work_is_wrong_usage(run: Run, arguments: tuple[str, ...], reason: str) -> None:
    result = run("worker", "run", *arguments)

    assert (result.code, result.out) == (2, "")
    assert reason in result.err


def test_a_worker_starts_without_what_only_stores_and_settings_need() -> None:
    program = (
        "import sys, atexit, runpy;"
        "heavy = {'tidemill.app.settings', 'tidemill.store', 'tidemill.tasks', 'tidemill.cluster'};"
        "atexit.register(lambda: print(*sorted(heavy & set(sys.modules)), file=sys.stderr));"
        "sys.argv = ['tidemill', 'worker', 'run', '--help'];"
        "runpy.run_module('tidemill', run_name='__main__')"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert answer.stderr.strip() == ""


# What nodes know of workers

HEAD = "name\tid\tstate\tsucceeded\tfailed\tdropped\tlast_seen\n"
SEEN = "2026-01-02 03:04:05Z"
MOMENT = 1_767_323_045_000


@pytest.fixture
def empty(run: Run) -> None:
    """A store, of which a node `vm-1` is alive."""

    async def enter(store: Store) -> None:
        leases = await store.hold(LEASES, ["node:vm-1"], "token-1", 600_000)
        await advertise(store, "node:vm-1", leases["node:vm-1"].term, {"address": "http://vm-1:7433"})

    assert run("config", "set", "ttl_s", "8").code == 0
    stored(enter)


@pytest.fixture
def roster(empty: None) -> None:
    """A worker `w-1` that is connected, and `w-2`, which went long ago."""
    here = Seen("shout", "vm-1", "token-1", MOMENT, state="working", tasks=("task-1",), seen=MOMENT)
    known = [
        Worker("w-1", "ada", MOMENT, succeeded=3, failed=2, dropped=1, sessions={"s-1": here}),
        Worker("w-2", "bob", MOMENT, succeeded=7),
    ]

    async def write(store: Store) -> None:
        for one in known:
            await store.create(WORKERS, worker_key(one.id), msgspec.to_builtins(one))

    stored(write)


def test_where_no_worker_ever_was_none_is_listed(run: Run, empty: None) -> None:
    listed = run("worker", "list")

    assert (listed.code, listed.out) == (0, HEAD)
    assert json.loads(run("worker", "list", "--all", "--json").out) == []


def test_workers_that_are_connected_are_listed_with_what_they_have_done(run: Run, roster: None) -> None:
    assert run("worker", "list").out == f"{HEAD}ada\tw-1\tworking\t3\t2\t1\t{SEEN}\n"


def test_all_lists_workers_that_went_long_ago_too(run: Run, roster: None) -> None:
    listed = run("worker", "list", "--all").out

    assert listed.splitlines()[1:] == [
        f"ada\tw-1\tworking\t3\t2\t1\t{SEEN}",
        "bob\tw-2\tgone\t7\t0\t0\t-",
    ]


def test_workers_are_listed_as_json(run: Run, roster: None) -> None:
    [ada] = json.loads(run("worker", "list", "--json").out)
    everybody = json.loads(run("worker", "list", "--all", "--json").out)

    assert (ada["id"], ada["last_seen"], ada["sessions"][0]["tasks"]) == ("w-1", MOMENT, ["task-1"])
    assert [worker["id"] for worker in everybody] == ["w-1", "w-2"]


def test_a_worker_is_shown_with_its_connections(run: Run, roster: None) -> None:
    shown = run("worker", "show", "w-1").out
    as_json = json.loads(run("worker", "show", "w-1", "--json").out)

    facts, connections = shown.split("\n\n")
    assert {"name\tada", "state\tworking", "failed\t2", f"first_seen\t{SEEN}"} <= set(facts.splitlines())
    assert connections.splitlines()[1].startswith("shout\tvm-1\tplain\tworking\t1\ttask-1\t")
    assert (as_json["name"], as_json["dropped"]) == ("ada", 1)
    assert "\n\n" not in run("worker", "show", "w-2").out


def test_a_worker_is_asked_to_leave_and_the_audit_log_says_so(run: Run, roster: None) -> None:
    kicked = run("worker", "kick", "w-1")
    told = run("worker", "kick", "w-2", "--json")

    assert (kicked.code, kicked.out, "connections of worker w-1" in kicked.err) == (0, "", True)
    assert (json.loads(told.out)["id"], told.err) == ("w-2", "")
    assert set(stored(asked_to_leave)) == {"w-1", "w-2"}
    entry = audit_entries()[1]
    assert (entry["action"], entry["target"], entry["outcome"]) == ("worker kick", "w-1", "done")


@pytest.mark.parametrize("verb", ["show", "kick"])
def test_a_worker_that_never_was_is_not_found(run: Run, roster: None, verb: str) -> None:
    result = run("worker", verb, "nobody")

    assert (result.code, result.out) == (3, "")
    assert "there is no worker 'nobody'" in result.err
    assert stored(asked_to_leave) == {}


def test_a_mistyped_verb_is_told_with_the_nearest(run: Run) -> None:
    assert "Did you mean 'kick'?" in run("worker", "kcik", "w-1").err
