"""`tidemill demo` beside its driver: what is printed, what is left behind, and with which code it ends."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

STAND_IN = Path(__file__).parents[1] / "demo" / "stand_in.py"
PROGRAM = f"""
from tidemill.app.demo import child
child.DRIVER = ({str(STAND_IN)!r},)
from tidemill.app.cli import main
main()
"""


class Demo:
    """A demo whose driver follows a story."""

    def __init__(self, folder: Path, story: str, *flags: str) -> None:
        known = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMILL_")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "demo", "--port", "0", "--headless", "--json", *flags],
            cwd=folder,
            env={**known, "TIDEMILL_TEST_STORY": story},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._said: list[str] = []

    def wait_for(self, text: str) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line)
            if text in line:
                return
        pytest.fail(f"it never said {text}: {self._said}")

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, dict[str, object], str]:
        """The exit code, the document and all that was said."""
        out, err = self._process.communicate()
        return self._process.returncode, json.loads(out), "".join(self._said) + err


def test_figures_are_told_beside_the_cluster(tmp_path: Path) -> None:
    code, document, said = Demo(tmp_path, "run heed right", "--seconds", "0").end()

    pipeline = document["pipeline"]
    assert isinstance(pipeline, dict)
    assert code == 0
    assert document["leader"] == document["node"]
    assert (pipeline["steps"], pipeline["checked"], pipeline["wrong"]) == (3, 2, 0)
    assert "some noise" not in said
    [data] = re.findall(r"(?m)^data +(\S+)", said)
    assert not Path(data).exists()
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_answer_ends_it_with_1(tmp_path: Path) -> None:
    code, _, said = Demo(tmp_path, "run heed wrong", "--seconds", "0").end()

    assert code == 1
    assert "error: 1 of 2 answers were wrong [demo.wrong]" in said


def test_an_interrupt_ends_it_with_0(tmp_path: Path) -> None:
    demo = Demo(tmp_path, "run heed right")
    demo.wait_for("sales, 0 rows")
    demo.interrupt()
    code, document, _ = demo.end()

    assert code == 0
    assert document["pipeline"]
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_answer_counts_also_when_it_is_interrupted(tmp_path: Path) -> None:
    demo = Demo(tmp_path, "run heed wrong")
    demo.wait_for("sales, 0 rows")
    demo.interrupt()

    assert demo.end()[0] == 1


@pytest.mark.parametrize(
    ("story", "message"),
    [
        ("java", "found no Java; a node alone needs none: tidemill demo --no-pipeline [pipeline.no_java]"),
        ("crash", "error: KeyError: 3 [demo.failed]"),
        ("run", "error: the driver has died [demo.failed]"),
    ],
)
def test_a_driver_that_fails_is_told_with_its_reason(tmp_path: Path, story: str, message: str) -> None:
    code, document, said = Demo(tmp_path, story).end()

    assert code == 1
    assert message in said
    assert "error" in str(document["pipeline"])
    assert ("some noise" in said) == (story != "java")


def test_a_folder_that_is_named_keeps_what_the_driver_made(tmp_path: Path) -> None:
    script = tmp_path / "mine.sql"
    script.write_text("CREATE TABLE t (a INT)")
    flags = ("--data", "kept", "--seconds", "0", "--sql", str(script))
    code, _, _ = Demo(tmp_path, "run heed right", *flags).end()

    [log] = (tmp_path / "kept").glob("demo-*/driver.log")
    assert code == 0
    assert log.read_text() == f"kept/{log.parent.name}/pipeline ['--sql', '{script}']\nsome noise\n"
