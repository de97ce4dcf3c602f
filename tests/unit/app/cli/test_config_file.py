"""A file of settings at the command line: refused starts, what is reported, what is shown."""

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidemill.app.cli import main, up
from tidemill.app.settings import Settings

DISBATCH = {
    "mongohost": "mongodb://db:27017",
    "database": "jobs",
    "auth": {"disbatchd": "hunter2"},
    "plugins": {"resize": "/opt/resize --fast"},
    "views_dir": "/etc/disbatch/views/",
    "log4perl": {"level": "WARN", "appenders": {}},
}


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """Run the command in an empty folder with those values in a file; gives exit code and both streams."""
    monkeypatch.chdir(tmp_path)

    def run(values: dict[str, Any], *arguments: str) -> tuple[int, str, str]:
        (tmp_path / "config.json").write_text(json.dumps(values))
        monkeypatch.setattr(sys, "argv", ["tidemill", *arguments, "--config", "config.json"])
        with pytest.raises(SystemExit) as ended:
            main()
        written = capsys.readouterr()
        return int(ended.value.code or 0), written.out, written.err

    return run


Run = Callable[..., tuple[int, str, str]]


def test_a_start_on_mongodb_is_refused_and_leaves_nothing(run: Run, tmp_path: Path) -> None:
    code, out, err = run(DISBATCH, "up")

    assert (code, out) == (2, "")
    assert err == (
        "error: setting store: 'mongodb://disbatchd:***@db:27017/jobs' (from mongohost in config.json) is in "
        "MongoDB, and this release has no MongoDB store; "
        "it has memory:, sqlite:///path or postgresql://host/database [setting.no_store]\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_its_settings_can_be_shown_all_the_same(run: Run) -> None:
    code, out, err = run(DISBATCH, "config", "show", "--json")

    shown = json.loads(out)
    assert code == 0
    assert shown["store"] == "mongodb://disbatchd:***@db:27017/jobs"
    assert (shown["plugins"], shown["log_level"]) == ({"resize": ["/opt/resize", "--fast"]}, "warning")
    assert "this release has no MongoDB store" in err
    assert "hunter2" not in out + err


def test_what_is_unused_is_told_with_the_settings(run: Run) -> None:
    values = DISBATCH | {"store": "sqlite:///a.db"}

    _, out, err = run(values, "config", "show")

    assert 'plugins\t{"resize": ["/opt/resize", "--fast"]}' in out.splitlines()
    assert err.splitlines() == [
        "mongohost is unused: store is set",
        "database is unused: store is set",
        "auth is unused: store is set",
        "log4perl.appenders is unused: events go to standard error",
        "views_dir is unused: the pages have no templates",
    ]


def test_a_node_that_starts_logs_what_is_unused(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    started: list[Settings] = []

    async def run_node(settings: Settings, announce: Callable[[Any], None]) -> None:
        started.append(settings)

    monkeypatch.setattr(up, "node_runner", lambda: run_node)
    monkeypatch.setattr(up, "configure_logs", lambda _: logging.getLogger().addHandler(caplog.handler))

    code, _, _ = run(DISBATCH | {"store": "sqlite:///a.db"}, "up")

    reported = [record.fields["setting"] for record in caplog.records if record.msg == "setting.unused"]  # type: ignore[attr-defined]
    assert (code, len(started)) == (0, 1)
    assert reported == ["mongohost", "database", "auth", "log4perl.appenders", "views_dir"]


def test_a_key_that_nobody_knows_is_named(run: Run) -> None:
    code, _, err = run(DISBATCH | {"mongohots": "db"}, "up")

    assert code == 2
    assert (
        "there is no setting 'mongohots' (from config.json); did you mean mongohost? [setting.unknown]" in err
    )
