"""When whoever has the pool is killed, nothing that it started goes on."""

import subprocess
import sys
from pathlib import Path

import psutil

TESTS = Path(__file__).parents[3]


def test_all_children_die_with_their_supervisor(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "unit.tasks.runner.supervisor", str(tmp_path / "pool")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=TESTS) as process:
        assert process.stdout is not None
        processes = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        assert len(processes) == 4
        process.kill()
        survivors = psutil.wait_procs(processes, timeout=20)[1]

    assert survivors == []
