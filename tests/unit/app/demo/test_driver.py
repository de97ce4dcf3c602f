"""The driver's process: it says why it fails, does as it is told, and ends with whoever started it."""

import subprocess
import sys
from pathlib import Path

import msgspec

from tidemill.app.demo.figures import Figures

OBEDIENT = """
import sys
from tidemill.app.demo import driver
driver._PATIENCE_S = 0.0
leash = driver.Leash(sys.stdin)
leash.finish.wait()
print("finishing", leash.end.is_set(), flush=True)
leash.end.wait()
while True:
    leash.end.wait()  # as if there were no end of work
"""
WITHOUT_SPARK = """
import atexit, sys
from tidemill.app.demo import driver
sys.modules["pyspark"] = None
atexit.register(print, "noise")
driver.main()
"""


def test_it_ends_with_its_input_whatever_it_does() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", OBEDIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("what?\nfinish\n")
    process.stdin.flush()
    said = process.stdout.readline()
    process.stdin.close()

    assert said == "finishing False\n"
    assert process.wait() == 1
    process.stdout.close()


def test_it_says_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, str(tmp_path / "p")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )

    first, last = (msgspec.json.decode(line, type=Figures) for line in done.stdout.splitlines())
    assert first.phase == "starting"
    assert (last.phase, last.code) == ("failed", "demo.no_spark")
    assert "pip install 'tidemill[spark,java]'" in last.said
    assert "noise" in done.stderr
