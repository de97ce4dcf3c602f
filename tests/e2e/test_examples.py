"""Every example runs to its end, and says itself whether all went as it should."""

import subprocess
import sys
from pathlib import Path

import pytest

from tidemill.pipeline.runtimes.java import Java

pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], check=False, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_two_processes_take_turns() -> None:
    assert run("01_lock.py").count("has the lock") == 6


def test_a_view_follows_its_tables(java: Java) -> None:
    assert run("02_pipeline.py") != ""


def test_files_of_a_folder_are_shared() -> None:
    assert "30 of 30 files are counted" in run("03_partitions.py")


def test_files_are_handed_to_idle_nodes() -> None:
    said = run("04_s3_files.py")

    assert "ada is given up" in said
    assert "12 of 12 files are downloaded" in said


def test_an_input_goes_on_elsewhere_when_its_node_dies() -> None:
    said = run("05_kafka_inputs.py")

    assert "ada has partition 0 from offset 0 on" in said
    assert "eve has partition 0 from offset" in said


def test_every_example_is_run() -> None:
    run_here = Path(__file__).read_text(encoding="utf-8")

    assert [path.name for path in EXAMPLES.glob("*.py") if f'run("{path.name}")' not in run_here] == []
