"""A folder of its own for each test, and the command line in it."""

import os
import sys
from pathlib import Path

import pytest

from tidemill.app.cli import main
from unit.app.cli.commands import Result, Run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and no settings from outside."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("TIDEMILL_")]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in this process."""

    def run(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["tidemill", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        written = capsys.readouterr()
        return Result(int(ended.value.code or 0), written.out, written.err)

    return run
