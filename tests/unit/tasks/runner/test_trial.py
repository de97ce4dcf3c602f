"""Plugins that cannot be run are found out before a task depends on them."""

from pathlib import Path

import pytest

from tidemill.tasks.runner import Plugins, trial
from tidemill.tasks.runner.trial import try_plugins
from unit.tasks.runner.listening import ACTS, HERE

BROKEN = {
    f"{ACTS}:absent": f"AttributeError: module '{ACTS}' has no attribute 'absent'",
    f"{ACTS}:not_callable": f"TypeError: {ACTS}:not_callable is neither a class nor a function",
    f"{HERE}.absent:anything": f"ModuleNotFoundError: No module named '{HERE}.absent'",
    f"{HERE}.dies_on_import:anything": "its runner exited with code 4 before it answered",
    f"{HERE}.exits_on_import:anything": "SystemExit: 3",
}


async def test_what_cannot_be_loaded_is_refused_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "PATIENCE_S", 200.0)
    plugins = Plugins([f"{ACTS}:Greets", *BROKEN])
    await try_plugins(plugins, tmp_path / "trial")

    assert plugins.names() == [f"{ACTS}:Greets"]
    assert plugins.broken() == {
        name: f"plugin {name!r}: it cannot be loaded: {reason}" for name, reason in BROKEN.items()
    }
    assert [record.__dict__["fields"]["plugin"] for record in caplog.records] == sorted(BROKEN)
    assert not (tmp_path / "trial").exists()


async def test_a_program_that_is_not_there_is_refused(tmp_path: Path) -> None:
    plugins = Plugins(programs={"nowhere": "/no/such/program", "shell": ["sh", "-c", "true"]})
    await try_plugins(plugins, tmp_path / "trial")

    assert plugins.names() == ["shell"]
    assert plugins.broken() == {
        "nowhere": "plugin 'nowhere': there is no program '/no/such/program' that this node may run"
    }


async def test_what_takes_long_to_load_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "PATIENCE_S", 0.0)
    plugins = Plugins([f"{ACTS}:Greets"])
    await try_plugins(plugins, tmp_path / "trial")

    assert plugins.names() == [f"{ACTS}:Greets"]


async def test_without_a_folder_all_are_believed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    plugins = Plugins([f"{ACTS}:absent"])
    await try_plugins(plugins, tmp_path / "file" / "trial")

    assert plugins.names() == [f"{ACTS}:absent"]
