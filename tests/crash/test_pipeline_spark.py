"""Pipelines on real Spark whose Python workers, driver or executors are killed in the middle of a step.

Each test has a driver process of its own; a step is caught in the middle by a function that hangs once.
"""

from pathlib import Path

import psutil
import pytest

from crash.spark_child import DEADLINE_S, KEYS, ROWS
from crash.spark_process import Cluster, Driver
from tidemill.pipeline.runtimes.java import Java

pytestmark = [pytest.mark.crash, pytest.mark.long, pytest.mark.timeout(600)]


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


def test_a_pipeline_whose_jvm_is_killed_says_so_and_goes_on_in_another_process(
    tmp_path: Path, java: Java
) -> None:
    with Driver(tmp_path, java) as driver:
        fill(driver)
        [jvm] = [child for child in psutil.Process(driver.process.pid).children() if "java" in child.name()]
        jvm.kill()
        # The first finds a connection cut, the others none.
        for question in ("step", "step", "create", "drop slow", "verify totals", "open"):
            answer = driver.answer(question)
            assert answer["error"] == "SparkGone", question
            assert "Spark is gone" in answer["message"]
        assert driver.ask("view totals") == totals(1)
        driver.ask("close")

    with Driver(tmp_path, java) as other:
        other.ask("open")
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


def test_a_step_whose_executor_is_killed_is_made_all_the_same(tmp_path: Path, java: Java) -> None:
    with Cluster(tmp_path, java) as cluster, Driver(tmp_path, java, cluster.master) as driver:
        fill(driver)
        driver.ask("arm")
        driver.begin("step")
        executor = next(one for one in driver.caught().parents() if one.name() == "java")
        executor.kill()
        answer = driver.answer()

        # Spark makes up for it. If it gives up, the step is there to be made again.
        assert answer.get("value") == 1 or answer["error"] == "StepFailed", answer
        if "error" in answer:
            assert driver.ask("step") == 1
        check(driver, 2)
