"""Seeds that every test run goes through. `make sim SEEDS=n` runs more."""

import multiprocessing
import os

from sim.run import Verdict, simulate

SEEDS = 300


def test_everything_holds_for_every_seed() -> None:
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        verdicts = pool.map(simulate, range(SEEDS), chunksize=10)
    breaches = [f"{verdict.replay()}  # {verdict.breach}" for verdict in verdicts if verdict.breach]

    assert not breaches, "replay with:\n" + "\n".join(breaches)
    assert sum(verdict.acts for verdict in verdicts) > 10 * SEEDS
    assert sum(verdict.writes for verdict in verdicts) > 10 * SEEDS


def test_a_seed_is_the_whole_story() -> None:
    assert _story(simulate(7)) == _story(simulate(7))


def test_a_seed_is_the_same_in_another_process() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        elsewhere = pool.apply(simulate, (11,))

    assert _story(elsewhere) == _story(simulate(11))


def _story(verdict: Verdict) -> tuple[list[str], float, int, int]:
    return verdict.trace, verdict.seconds, verdict.acts, verdict.writes
