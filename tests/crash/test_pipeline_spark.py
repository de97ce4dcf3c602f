"""Pipelines on real Spark whose Python workers, driver or executors are killed in the middle of a step.

Each test has a driver process of its own; a step is caught in the middle by a function that hangs once.
"""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import psutil
import pytest

from crash.processes import TESTS
from crash.spark_child import DEADLINE_S, KEYS, ROWS
from tidemill.pipeline.runtimes.java import Java

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


class Driver:
    """A driver process. All that it started is gone after the `with` block."""

    def __init__(self, folder: Path, java: Java, master: str = "local[2]") -> None:
        self.folder = folder
        if not (folder / "hangs").exists():
            os.mkfifo(folder / "hangs")
        environment = {
            **os.environ,
            "PYTHONPATH": str(TESTS),
            "JAVA_HOME": str(java.home),
            "PYSPARK_PYTHON": sys.executable,
        }
        self.process = psutil.Popen(
            [sys.executable, "-m", "crash.spark_child", master, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._all: set[psutil.Process] = set()

    def ask(self, question: str) -> Any:
        """What a method of the driver returned."""
        answer = self.answer(question)
        assert "value" in answer, answer
        return answer["value"]

    def answer(self, question: str = "") -> dict[str, Any]:
        """The whole answer, be it an error; without a question, to the one that was begun."""
        if question:
            self.begin(question)
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def begin(self, question: str) -> None:
        self.process.stdin.write(f"{question}\n".encode())
        self.process.stdin.flush()

    def caught(self) -> psutil.Process:
        """Wait until the step that was begun hangs; the Python worker that does."""
        worker = psutil.Process(int((self.folder / "hangs").read_text()))
        self._all.update(self.process.children(recursive=True))
        return worker

    def __enter__(self) -> Self:
        assert json.loads(self.process.stdout.readline()) == {"ready": True}
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(psutil.NoSuchProcess):
            self._all.update(self.process.children(recursive=True))
        self.process.stdin.close()
        with suppress(psutil.TimeoutExpired):
            self.process.wait(30)
        for process in (self.process, *self._all):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
        self.process.stdout.close()


def totals(inserts: int) -> list[list[int]]:
    """The view `totals` after so many inserts."""
    found = []
    for key in range(KEYS):
        values = range(key, inserts * ROWS, KEYS)
        found.append([key, sum(values), max(values), len(values)])
    return found


def slow(inserts: int) -> list[list[int]]:
    return [[key, total] for key, total, _, _ in totals(inserts)]


def fill(driver: Driver) -> None:
    driver.ask("open")
    driver.ask("create")
    driver.ask("insert 0")
    assert driver.ask("step") == 0
    driver.ask(f"insert {ROWS}")


def check(driver: Driver, inserts: int) -> None:
    """The views are what they should be, and stay so when their pipeline is opened anew."""
    for _ in range(2):
        assert driver.ask("view totals") == totals(inserts)
        assert driver.ask("view slow") == slow(inserts)
        driver.ask("close")
        driver.ask("open")


def test_a_step_whose_python_workers_are_killed_is_made_again(tmp_path: Path, java: Java) -> None:
    with Driver(tmp_path, java) as driver:
        fill(driver)
        driver.ask("arm")
        driver.begin("step")
        forker = driver.caught().parent()
        assert forker is not None
        for worker in forker.children():
            worker.kill()

        assert driver.answer()["error"] == "StepFailed"
        assert driver.ask("view totals") == totals(1)
        assert driver.ask("step") == 1
        check(driver, 2)


def test_a_pipeline_whose_driver_is_killed_in_a_step_goes_on_in_another(tmp_path: Path, java: Java) -> None:
    with Driver(tmp_path, java) as driver:
        fill(driver)
        driver.ask("arm")
        driver.begin("step")
        driver.caught()
        driver.process.kill()
        driver.process.wait()

        # What is left of the first, its JVM and the Python workers, is still at it.
        with Driver(tmp_path, java) as other:
            other.ask("open")
            assert other.ask("view totals") == totals(1)
            assert other.ask("step") == 1
            check(other, 2)


def test_a_step_that_hangs_fails_at_its_deadline(tmp_path: Path, java: Java) -> None:
    with Driver(tmp_path, java) as driver:
        fill(driver)
        driver.ask("close")
        driver.ask(f"open {DEADLINE_S}")
        driver.ask("arm")
        driver.begin("step")
        worker = driver.caught()
        answer = driver.answer()

        assert answer["error"] == "StepFailed"
        assert f"{DEADLINE_S:g} s" in answer["message"]
        assert DEADLINE_S <= answer["seconds"] < 4 * DEADLINE_S
        worker.wait(30)
        driver.ask("drop slow")
        assert driver.ask("step") == 1
        assert driver.ask("view totals") == totals(2)
