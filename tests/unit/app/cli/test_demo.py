"""`tidemill demo` beside its driver: what is printed, what is left behind, and with which code it ends."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidemill.app.cli import main
from tidemill.app.demo import child

STAND_IN = (str(Path(__file__).parents[1] / "demo" / "stand_in.py"),)
COMMAND = ("demo", "--port", "0", "--headless", "--json")


class Demo:
    """Demos in a folder of their own, whose driver follows a story."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._patch = monkeypatch
        self._capture = capsys
        for name in [name for name in os.environ if name.startswith("TIDEMILL_")]:
            monkeypatch.delenv(name)
        monkeypatch.chdir(folder)
        monkeypatch.setattr(child, "DRIVER", STAND_IN)

    def run(self, story: str, *flags: str) -> tuple[int, str, str]:
        """Its exit code, and what it wrote."""
        self._patch.setenv("TIDEMILL_TEST_STORY", story)
        self._patch.setattr(sys, "argv", ["tidemill", *COMMAND, *flags])
        with pytest.raises(SystemExit) as ended:
            main()
        written = self._capture.readouterr()
        return int(ended.value.code or 0), written.out, written.err


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Demo:
    return Demo(tmp_path, monkeypatch, capsys)


def test_figures_are_told_beside_the_cluster_and_nothing_is_left_behind(demo: Demo, tmp_path: Path) -> None:
    code, out, said = demo.run("run heed right", "--seconds", "0")

    document = json.loads(out)
    pipeline = document["pipeline"]
    assert code == 0
    assert document["leader"] == document["node"]
    assert (pipeline["steps"], pipeline["checked"], pipeline["wrong"]) == (3, 2, 0)
    assert "some noise" not in said
    [data] = re.findall(r"(?m)^data +(\S+)", said)
    assert not Path(data).exists()
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_answer_ends_it_with_1(demo: Demo) -> None:
    code, _, said = demo.run("run heed wrong", "--seconds", "0")

    assert code == 1
    assert "error: 1 of 2 answers were wrong [demo.wrong]" in said


@pytest.mark.parametrize(
    ("story", "message"),
    [
        ("java", "found no Java; a node alone needs none: tidemill demo --no-pipeline [pipeline.no_java]"),
        ("crash", "error: KeyError: 3 [demo.failed]"),
        ("run", "error: the driver has died [demo.failed]"),
    ],
)
def test_a_driver_that_fails_is_told_with_its_reason(demo: Demo, story: str, message: str) -> None:
    code, out, said = demo.run(story)

    assert code == 1
    assert message in said
    assert json.loads(out)["pipeline"]["error"] in said
    assert ("some noise" in said) == (story != "java")


def test_a_folder_that_is_named_keeps_what_the_driver_made(demo: Demo, tmp_path: Path) -> None:
    (tmp_path / "mine.sql").write_text("CREATE TABLE t (a INT)")
    code, _, _ = demo.run("run heed right", "--data", "kept", "--seconds", "0", "--sql", "mine.sql")

    [log] = (tmp_path / "kept").glob("demo-*/driver.log")
    assert code == 0
    assert log.read_text() == f"kept/{log.parent.name}/pipeline ['--sql', 'mine.sql']\nsome noise\n"


def test_a_wrong_answer_counts_also_when_it_is_interrupted(demo: Demo) -> None:
    program = "from tidemill.app.demo import child; from tidemill.app.cli import main; "
    program += f"child.DRIVER = {STAND_IN!r}; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *COMMAND],
        env={**os.environ, "TIDEMILL_TEST_STORY": "run heed wrong"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert any("sales, 0 rows" in line for line in process.stderr)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()

    assert process.returncode == 1
    assert "[demo.wrong]" in said
