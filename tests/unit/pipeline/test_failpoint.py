"""Failpoints: kill at the passing that is named, and nothing else."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidemill.pipeline import failpoint

LOOP = """
from tidemill.pipeline.failpoint import reach
for _ in range(3):
    reach("a")
    reach("b")
    print(".", end="")
"""


@pytest.mark.parametrize(
    ("named", "printed", "code"),
    [("a", "", -signal.SIGKILL), ("b:3", "..", -signal.SIGKILL), ("a:4", "...", 0), ("c", "...", 0)],
)
def test_the_named_passing_kills(named: str, printed: str, code: int) -> None:
    environment = {**os.environ, failpoint.VARIABLE: named}
    command = [sys.executable, "-u", "-c", LOOP]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert (done.stdout, done.returncode) == (printed, code)


def test_without_the_variable_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(failpoint.VARIABLE, raising=False)
    failpoint.reach("state.seal.before_write")


def test_every_point_of_the_state_is_listed() -> None:
    folder = Path(failpoint.__file__).parent / "state"
    used = [
        name for path in folder.glob("*.py") for name in re.findall(r'reach\("(.+?)"\)', path.read_text())
    ]

    assert sorted(used) == sorted(failpoint.STATE_POINTS)
