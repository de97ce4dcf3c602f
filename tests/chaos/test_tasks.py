"""Tasks under chaos: a clean cluster is found clean, and each check finds what it looks for."""

import asyncio
from pathlib import Path

import pytest

from chaos import task_checks
from chaos.recorder import Change, Facts
from chaos.tasks import Plan, run
from tidemill.tasks.status import CLAIMED, QUEUED, RUNNING, SUCCEEDED


def history(*states: tuple[int, int], key: str = "a") -> list[Change]:
    """The changes of a task, each its status and its term."""
    changes: list[Change] = []
    before: Facts | None = None
    for number, (status, term) in enumerate(states):
        after = Facts(number, term, None, 0, status)
        changes.append(Change(number, None, "tasks", key, before, after, {}))
        before = after
    return changes


GOOD = history((QUEUED, 0), (CLAIMED, 5), (RUNNING, 5), (SUCCEEDED, 5))


def test_a_task_that_is_run_once_is_found_clean() -> None:
    assert not list(task_checks.none_lost(GOOD, ["a"]))
    assert not list(task_checks.none_ended_twice(GOOD))
    assert not list(task_checks.no_step_back(GOOD))
    assert not list(task_checks.no_cap_exceeded(GOOD, 1))
    assert not list(task_checks.no_zombie(GOOD, {"a": 5}))


def test_a_task_that_never_ended_or_was_never_there_is_lost() -> None:
    assert len(list(task_checks.none_lost(GOOD[:3], ["a", "b"]))) == 2


def test_a_task_that_ends_twice_is_found() -> None:
    again = history((QUEUED, 0), (CLAIMED, 5), (SUCCEEDED, 5), (SUCCEEDED, 5))

    assert len(list(task_checks.none_ended_twice(again))) == 1


def test_a_task_that_is_taken_under_an_old_term_is_found() -> None:
    same = history((QUEUED, 5), (CLAIMED, 5))
    fell = history((CLAIMED, 5), (RUNNING, 4))

    assert len(list(task_checks.no_step_back(same))) == 1
    assert len(list(task_checks.no_step_back(fell))) == 1


def test_more_tasks_in_hands_than_allowed_are_found() -> None:
    both = [history((CLAIMED, 5), key="a")[0], history((CLAIMED, 6), key="b")[0]]

    assert len(list(task_checks.no_cap_exceeded(both, 1))) == 1
    assert not list(task_checks.no_cap_exceeded(both, 2))


def test_the_result_of_a_zombie_is_found() -> None:
    assert len(list(task_checks.no_zombie(GOOD, {"a": 4}))) == 1


@pytest.mark.long
@pytest.mark.crash
async def test_tasks_survive_the_death_and_the_stop_of_nodes(tmp_path: Path) -> None:
    plan = Plan(tasks=120, kills=2, stops=1, nodes=3, seed=7)
    async with asyncio.timeout(200):
        verdict = await run("sqlite", f"sqlite:///{tmp_path}/store.db", tmp_path, plan)

    assert not verdict.wrong
    assert verdict.counts["accepted writes judged"] >= 2 * plan.tasks
