"""Doctor: what it says of machines that are fit, and of broken ones."""

import http.server
import socket
import sys
import threading
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from tidemill.app import doctor
from tidemill.app.doctor import (
    State,
    check_cas,
    check_clock,
    check_data,
    check_port,
    check_spark,
    check_store,
    examine,
    try_spark,
)
from tidemill.app.settings import Settings
from tidemill.pipeline.runtimes.java import Java
from tidemill.store import Store, Unavailable, open_store


@pytest.fixture
def occupied() -> Iterator[int]:
    """A port that something else listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(5)
        port = listener.getsockname()[1]
        hanging_up = threading.Thread(target=_hang_up, args=(listener,))
        hanging_up.start()
        yield port
        hanging_up.join()


def _hang_up(listener: socket.socket) -> None:
    for _ in ("http", "https"):
        connection, _address = listener.accept()
        connection.close()


@pytest.fixture
def running_node() -> Iterator[int]:
    """A port where something answers as a node does."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"service":"tidemill"}')

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        yield server.server_port
        thread.join()


async def test_a_fit_machine_has_no_problems(tmp_path: Path) -> None:
    findings = await examine(Settings(data=tmp_path, port=0, store="memory:"))

    assert [finding.check for finding in findings] == [
        "python",
        "java",
        "spark",
        "sqlite",
        "data",
        "port",
        "store",
        "clock",
        "cas",
    ]
    assert [finding for finding in findings if finding.state is State.PROBLEM] == []
    assert all(finding.fix for finding in findings if finding.state is not State.OK)


def test_spark_is_tried_for_real_when_asked(java: Java) -> None:
    finding = try_spark()

    assert (finding.check, finding.state) == ("spark", State.OK)
    assert "a tiny query takes" in finding.message


def test_a_spark_that_does_not_run_is_a_problem_with_its_last_words() -> None:
    finding = try_spark([sys.executable, "-c", "import sys; sys.exit('at first\\nno such luck')"])

    assert finding.state is State.PROBLEM
    assert finding.message.endswith(": no such luck")
    assert finding.fix


def test_a_spark_that_hangs_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "TRIAL_TIMEOUT_S", 0.1)

    assert try_spark([sys.executable, "-c", "input()"]).state is State.PROBLEM


def test_a_spark_that_is_not_installed_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)

    assert check_spark().state is State.WARNING


def test_a_data_folder_that_cannot_be_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    finding = check_data(tmp_path / "file" / "data")

    assert (finding.state, finding.check) == (State.PROBLEM, "data")
    assert finding.fix
    assert "--data" in finding.fix


def test_a_slow_disk_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_synced_write_ms", lambda _: 80.0)

    assert check_data(tmp_path).state is State.WARNING


def test_the_data_check_leaves_nothing_behind(tmp_path: Path) -> None:
    check_data(tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_an_occupied_port_is_a_problem(occupied: int) -> None:
    finding = check_port(Settings(port=occupied))

    assert finding.state is State.PROBLEM
    assert str(occupied) in finding.message


def test_a_port_where_a_node_answers_is_no_problem(running_node: int) -> None:
    finding = check_port(Settings(port=running_node))

    assert (finding.state, "answers" in finding.message) == (State.OK, True)


def test_an_address_of_another_machine_is_a_problem() -> None:
    assert check_port(Settings(host="192.0.2.1")).state is State.PROBLEM


async def test_a_store_that_does_not_open_is_one_problem_without_its_password(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    findings = await check_store(Settings(store=f"sqlite:///{tmp_path}/file/x.db?password=hunter2"))

    assert [finding.state for finding in findings] == [State.PROBLEM]
    assert "hunter2" not in findings[0].message


async def test_a_store_closed_to_this_release_is_a_problem() -> None:
    async with open_store("memory:doctor-release") as store:
        await store.close_to_older("99.0.0")

    [finding] = await check_store(Settings(store="memory:doctor-release"))

    assert finding.state is State.PROBLEM
    assert "99.0.0" in finding.message


async def test_a_clock_far_from_the_stores_is_a_warning(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def now() -> int:
        return 0

    monkeypatch.setattr(store, "now", now)

    assert (await check_clock(store)).state is State.WARNING


async def test_the_cas_check_leaves_nothing_behind(store: Store) -> None:
    finding = await check_cas(store)

    assert finding.state is State.OK
    assert await store.count(doctor._SCRATCH) == 0


async def test_a_store_that_takes_no_writes_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    async def create(*_: object, **__: object) -> int:
        raise Unavailable("read-only")

    monkeypatch.setattr(Store, "create", create)

    findings = {finding.check: finding.state for finding in await check_store(Settings(store="memory:"))}

    assert findings == {"store": State.OK, "clock": State.OK, "cas": State.PROBLEM}
