import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidemill.pipeline.errors import AlreadyOpen
from tidemill.pipeline.log.folder import FolderLock


def test_a_second_object_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    with FolderLock(tmp_path):
        with pytest.raises(AlreadyOpen, match="this process"):
            FolderLock(tmp_path)
    with FolderLock(tmp_path) as lock:
        lock.release()
        lock.release()


def test_another_process_is_named_and_its_death_frees_the_folder(tmp_path: Path) -> None:
    hold = (
        "import sys, pathlib; from tidemill.pipeline.log.folder import FolderLock;"
        "lock = FolderLock(pathlib.Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(AlreadyOpen, match=f"process {process.pid}"):
            FolderLock(tmp_path)
        process.kill()

    FolderLock(tmp_path).release()
    assert (tmp_path / "owner.lock").read_text() == f"{os.getpid()}\n"
