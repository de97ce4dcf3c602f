"""Folders of pools: held by one, and cleared away after a death."""

import subprocess
import sys
from pathlib import Path

import pytest

from tidemill.tasks.runner.folder import LOCK, Folder

HOLD = """
import sys, signal
from pathlib import Path
from tidemill.tasks.runner.folder import Folder
folder = Folder(Path(sys.argv[1]))
(folder.path / "large").write_text("output")
print("held", flush=True)
signal.pause()
"""


def test_a_folder_is_empty_and_is_deleted_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    folder = Folder(tmp_path / "a")

    assert [path.name for path in folder.path.iterdir()] == [LOCK]
    folder.release()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_somebody_has_is_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "a")
    with pytest.raises(BlockingIOError, match="belongs to another pool"):
        Folder(tmp_path / "a")
    folder.release()
    Folder(tmp_path / "a").release()


def test_what_is_still_needed_stays(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "a")
    output = folder.path / "runner-1.stdout"
    output.write_bytes(b"large")
    folder.release()
    Folder(tmp_path / "b").release()

    assert output.read_bytes() == b"large"
    output.unlink()
    folder.release()


def test_the_folder_of_one_that_was_killed_is_cleared_away_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "not ours").mkdir()
    command = [sys.executable, "-c", HOLD, str(tmp_path / "dead")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        Folder(tmp_path / "mine").release()
        assert (tmp_path / "dead" / "large").exists()
        process.kill()
    Folder(tmp_path / "mine").release()

    assert [path.name for path in tmp_path.iterdir()] == ["not ours"]
