"""The command line: what goes to which stream, and with which exit code it ends."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidemill.app.cli import up
from tidemill.app.cli.exits import exit_code
from tidemill.app.cli.root import NOUNS
from tidemill.app.settings import Settings
from tidemill.app.tokens import TOKENS
from tidemill.base.errors import TidemillError
from tidemill.cluster.errors import NameTaken
from tidemill.cluster.partitions import FAILED, PARTITIONS, outstanding
from tidemill.store import Conflict, Store, Unavailable
from tidemill.store.errors import ReadOnly
from unit.app.cli.commands import STORE, Run, audit_entries, stored

pytestmark = pytest.mark.usefixtures("folder")


@pytest.mark.parametrize("argument", ["version", "--version"])
def test_version_goes_to_standard_output(run: Run, argument: str) -> None:
    result = run(argument)

    assert (result.code, result.out, result.err) == (0, "tidemill 0.1.0\n", "")


def test_the_module_is_the_command_and_loads_no_web_framework() -> None:
    program = (
        "import runpy, sys, atexit;"
        "heavy = {'fastapi', 'uvicorn', 'apsw', 'structlog'};"
        "atexit.register(lambda: print(*sorted(heavy & set(sys.modules))));"
        "sys.argv = ['tidemill', 'version'];"
        "runpy.run_module('tidemill', run_name='__main__')"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert answer.stdout == "tidemill 0.1.0\n\n"


@pytest.mark.parametrize("noun", NOUNS)
def test_every_noun_has_help(run: Run, noun: str) -> None:
    assert noun in run("--help").out
    assert run(noun, "--help").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nosuch"], 2, "No such command"),
        (["tasks", "list"], 2, "Did you mean 'task'?"),
        (["qeue"], 2, "Did you mean 'queue'?"),
        (["token", "crate"], 2, "Did you mean 'create'?"),
        (["node", "list"], 3, "there is no store at .tidemill/tidemill.db"),
        (["token", "revoke", "ci"], 3, "there is no store"),
        (["config", "set", "ttl_s", "0"], 2, "[setting.value]"),
        (["config", "set", "ttls", "1"], 2, "did you mean ttl_s?"),
        (["config", "set", "port", "1"], 2, "[setting.not_cluster_wide]"),
        (["config", "set", "ttl_s"], 2, "either a value or --unset"),
        (["up", "--port", "many"], 2, "setting port: 'many' (from --port)"),
        (["up", "--store", "mysql://ada:hunter2@db"], 2, "mysql://ada:***@db"),
        (
            ["up", "--store", "mongodb://ada:hunter2@db/jobs"],
            2,
            "'mongodb://ada:***@db/jobs' (from --store) is in",
        ),
        (["node", "list", "--store", "mongodb://db/jobs"], 2, "no MongoDB store; it has memory:"),
        (["up", "--host", "0.0.0.0"], 2, "[door.bind]"),
        (["config", "show", "--config", "absent.toml"], 2, "absent.toml cannot be read"),
        (["token", "create", "--role", "viewer", "--expires", "soon"], 2, "not a duration"),
        (["token", "create", "--role", "king"], 2, "king"),
    ],
)
def test_a_mistake_is_told_in_one_line_with_its_exit_code(
    run: Run, arguments: list[str], code: int, message: str
) -> None:
    result = run(*arguments)

    assert (result.code, result.out) == (code, "")
    assert message in result.err
    assert "Traceback" not in result.err
    assert "hunter2" not in result.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Conflict("x"), 4),
        (NameTaken("x"), 4),
        (Unavailable("x"), 6),
        (ReadOnly("x"), 6),
        (TidemillError("x"), 1),
    ],
)
def test_errors_have_their_exit_code(error: TidemillError, code: int) -> None:
    assert exit_code(error.code) == code


def test_a_store_that_cannot_be_reached_is_exit_6(run: Run, folder: Path) -> None:
    (folder / "store.db").mkdir()

    assert run("token", "create", "--role", "viewer", "--store", "sqlite:///store.db").code == 6


def test_settings_are_shown_with_their_origins(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "tidemill.toml").write_text("slots = 3\n")
    monkeypatch.setenv("TIDEMILL_PORT", "7500")
    run("config", "set", "ttl_s", "8")

    lines = run("config", "show", "--origin").out.splitlines()
    shown = json.loads(run("config", "show", "--origin", "--json").out)

    assert lines[0] == "setting\tvalue\torigin"
    assert {"port\t7500\tTIDEMILL_PORT", "slots\t3\ttidemill.toml", "ttl_s\t8.0\tstore"} <= set(lines)
    assert shown["host"] == {"value": "127.0.0.1", "origin": "default"}


def test_showing_settings_makes_no_store(run: Run, folder: Path) -> None:
    assert run("config", "show").code == 0
    assert list(folder.iterdir()) == []


def test_a_cluster_wide_setting_is_set_unset_and_audited(run: Run) -> None:
    assert run("config", "set", "ttl_s", "8").code == 0
    assert json.loads(run("config", "show", "--json").out)["ttl_s"] == 8.0
    assert run("config", "set", "ttl_s", "--unset").code == 0
    assert json.loads(run("config", "show", "--json").out)["ttl_s"] == 5.0

    entries = audit_entries()
    assert [(entry["action"], entry["target"], entry["outcome"]) for entry in reversed(entries)] == [
        ("config set", "ttl_s", "done"),
        ("config unset", "ttl_s", "done"),
    ]
    assert all(entry["who"].startswith("cli:") and "@" in entry["who"] for entry in entries)


def test_a_token_is_made_listed_revoked_and_audited(run: Run) -> None:
    made = run("token", "create", "--role", "operator", "--name", "ci", "--expires", "30d")
    twice = run("token", "create", "--role", "operator", "--name", "ci")
    listed = json.loads(run("token", "list", "--json").out)
    document = stored(lambda store: store.get(TOKENS, "ci"))
    revoked = run("token", "revoke", "ci")
    gone = run("token", "revoke", "ci")

    secret = made.out.strip()
    assert secret.startswith("tdm_")
    assert secret not in made.err
    assert secret not in str(document)
    assert [(token["name"], token["roles"], token["tail"]) for token in listed] == [
        ("ci", ["operator"], secret[-4:])
    ]
    assert (twice.code, revoked.code, gone.code) == (4, 0, 3)
    assert [(entry["action"], entry["outcome"]) for entry in reversed(audit_entries())] == [
        ("token create", "done"),
        ("token create", "failed: store.conflict"),
        ("token revoke", "done"),
        ("token revoke", "failed: not_found"),
    ]


def test_the_data_folder_is_for_its_owner_only(run: Run, folder: Path) -> None:
    run("token", "create", "--role", "viewer")

    assert (folder / ".tidemill").stat().st_mode & 0o077 == 0


def test_an_empty_cluster_is_told(run: Run) -> None:
    run("config", "set", "ttl_s", "8")

    nodes, cluster = run("node", "list", "--json"), run("cluster", "show", "--json")

    assert (nodes.code, json.loads(nodes.out)) == (0, [])
    assert json.loads(cluster.out) == {
        "leader": None,
        "leader_name": None,
        "term": None,
        "nodes": [],
        "partitions": [],
        "alarms": [],
        "store": STORE,
    }


async def some_partitions(store: Store) -> None:
    failed = {**outstanding("files", b"task"), "state": FAILED, "attempt": 5, "error": "ValueError: broken"}
    await store.create(PARTITIONS, "files/a", failed)
    await store.create(PARTITIONS, "files/b", outstanding("files", b"task"))
    await store.create(PARTITIONS, "feed/c", outstanding("feed", b"task"))


def test_partitions_are_listed_and_a_failed_one_is_tried_again(run: Run) -> None:
    run("config", "set", "ttl_s", "8")
    stored(some_partitions)

    listed = run("cluster", "partitions", "--handler", "files")
    assert listed.out.splitlines() == [
        "key\tstate\tnode\tattempt\tleft_s\tpause_s\terror",
        "files/a\tfailed\t-\t5\t-\t-\tValueError: broken",
        "files/b\toutstanding\t-\t0\t-\t-\t-",
    ]
    assert len(json.loads(run("cluster", "partitions", "--json").out)) == 3

    assert run("cluster", "retry", "files/a").code == 0
    seen = json.loads(run("cluster", "partitions", "--handler", "files", "--json").out)
    assert [(one["state"], one["attempt"]) for one in seen] == [("outstanding", 0), ("outstanding", 0)]
    assert audit_entries()[0]["action"] == "partition retry"


def test_what_changes_is_told_as_json_when_asked(run: Run) -> None:
    made = json.loads(run("token", "create", "--role", "viewer", "--name", "ci", "--json").out)
    revoked = run("token", "revoke", "ci", "--json")
    setting = run("config", "set", "ttl_s", "8", "--json")
    stored(some_partitions)
    retried = run("cluster", "retry", "files/a", "--json")

    assert (made["name"], json.loads(revoked.out)) == ("ci", {"deleted": "ci"})
    assert (json.loads(setting.out), setting.err) == ({"ttl_s": 8.0}, "")
    assert json.loads(retried.out) == {"retried": ["files/a"]}


@pytest.mark.parametrize(("key", "code"), [("files/b", 4), ("files/none", 3)])
def test_what_has_not_failed_is_not_tried_again(run: Run, key: str, code: int) -> None:
    run("config", "set", "ttl_s", "8")
    stored(some_partitions)

    assert run("cluster", "retry", key).code == code


def test_doctor_is_content_with_a_fit_machine(run: Run) -> None:
    result = run("doctor", "--port", "0", "--json")

    assert result.code == 0
    assert {finding["state"] for finding in json.loads(result.out)} <= {"ok", "warning"}


def test_doctor_ends_with_7_and_the_fix_when_something_is_wrong(run: Run, folder: Path) -> None:
    (folder / "file").write_text("in the way")

    result = run("doctor", "--port", "0", "--data", "file/data", "--store", "memory:")

    assert result.code == 7
    assert "✗ data" in result.out
    assert "fix: make it writable" in result.out


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings of the nodes that were started, none of which really was."""
    nodes: list[Settings] = []

    async def run_node(settings: Settings, announce: Callable[[Any], None]) -> None:
        nodes.append(settings)
        announce(SimpleNamespace(name=settings.name, settings=settings))

    monkeypatch.setattr(up, "node_runner", lambda: run_node)
    return nodes


def test_up_starts_a_node_with_the_clusters_settings(run: Run, started: list[Settings]) -> None:
    run("config", "set", "ttl_s", "8")

    result = run("up", "--store", STORE, "--slots", "3")

    [settings] = started
    assert (result.code, settings.ttl_s, settings.slots) == (0, 8.0, 3)
    assert "http://127.0.0.1:7433" in result.err
    assert "no tokens: everybody on this machine may do everything" in result.err


def test_up_beyond_loopback_starts_once_there_is_a_token(run: Run, started: list[Settings]) -> None:
    refused = run("up", "--host", "0.0.0.0")
    run("token", "create", "--role", "admin")
    result = run("up", "--host", "0.0.0.0")

    assert (refused.code, result.code) == (2, 0)
    assert [settings.host for settings in started] == ["0.0.0.0"]
    assert "a token is needed" in result.err


def test_an_interrupted_node_ends_with_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run_node(settings: Settings, announce: Callable[[Any], None]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(up, "node_runner", lambda: run_node)

    assert run("up").code == 130


def test_demo_tells_the_cluster_and_leaves_nothing_behind(run: Run, folder: Path) -> None:
    result = run("demo", "--port", "0", "--seconds", "0", "--headless", "--json", "--no-pipeline")

    cluster = json.loads(result.out)
    assert result.code == 0
    assert cluster["leader"] == cluster["node"] == cluster["nodes"][0]["token"]
    [data] = [line.split()[1] for line in result.err.splitlines() if line.startswith("data ")]
    assert not Path(data).exists()
    assert list(folder.iterdir()) == []


def test_demo_keeps_a_folder_that_was_named(run: Run, folder: Path) -> None:
    result = run("demo", "--data", "kept", "--port", "0", "--seconds", "0", "--headless", "--no-pipeline")

    assert (result.code, result.out) == (0, "")
    assert (folder / "kept" / "tidemill.db").exists()


def test_a_port_that_is_taken_is_told_in_one_line(run: Run) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        result = run("up", "--port", str(listener.getsockname()[1]))

    assert (result.code, "[node.port]" in result.err, "Traceback" in result.err) == (1, True, False)
