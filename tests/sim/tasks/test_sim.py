"""Seeds that every test run goes through. `make sim SEEDS=n` runs more."""

import multiprocessing
import os

from sim.run import Verdict
from sim.tasks.run import simulate_tasks

SEEDS = 60


def test_everything_holds_for_every_seed() -> None:
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        verdicts = pool.map(simulate_tasks, range(SEEDS), chunksize=10)
    breaches = [f"{verdict.replay()}  # {verdict.breach}" for verdict in verdicts if verdict.breach]

    assert not breaches, "replay with:\n" + "\n".join(breaches)
    assert sum(verdict.acts for verdict in verdicts) > 10 * SEEDS
    assert sum(verdict.writes for verdict in verdicts) > 50 * SEEDS
    assert sum(verdict.in_vain for verdict in verdicts) > 0


def test_a_seed_is_the_same_in_another_process() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        elsewhere = pool.apply(simulate_tasks, (7,))

    assert _story(elsewhere) == _story(simulate_tasks(7))


def _story(verdict: Verdict) -> tuple[list[str], float, int, int]:
    return verdict.trace, verdict.seconds, verdict.acts, verdict.writes
