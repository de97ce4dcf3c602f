"""Seeds that every test run goes through. `make sim SEEDS=n` runs more."""

import multiprocessing
import os

from sim.partitions.run import simulate_partitions

SEEDS = 60


def test_everything_holds_for_every_seed() -> None:
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        verdicts = pool.map(simulate_partitions, range(SEEDS), chunksize=10)
    breaches = [f"{verdict.replay()}  # {verdict.breach}" for verdict in verdicts if verdict.breach]

    assert not breaches, "replay with:\n" + "\n".join(breaches)
    assert sum(verdict.acts for verdict in verdicts) > 100 * SEEDS
    assert sum(verdict.writes for verdict in verdicts) > 50 * SEEDS


def test_a_seed_is_the_whole_story() -> None:
    one, other = simulate_partitions(7), simulate_partitions(7)

    assert (one.trace, one.seconds, one.acts) == (other.trace, other.seconds, other.acts)
