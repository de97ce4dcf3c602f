"""Nodes share a semaphore in the simulated world: whoever believes to hold a slot has it, and all get in."""

from functools import partial

import pytest

from sim.semaphores import SLOTS, SemaphoreSimulation, simulate_semaphores
from sim.test_planted_bugs import first_breach
from sim.world import SimLoop, World
from tidemill.cluster import Seat
from tidemill.cluster.lease import Grant, Timing, granted
from tidemill.cluster.turns import Scene, keys_of
from tidemill.store import Lease, Store
from tidemill.store.backends.memory import MemoryBackend, MemoryServer

SEEDS = 15


@pytest.mark.sim
def test_slots_hold_for_every_seed_and_nobody_is_starved() -> None:
    verdicts = [simulate_semaphores(seed) for seed in range(SEEDS)]
    breaches = [f"seed {verdict.seed}: {verdict.breach}" for verdict in verdicts if verdict.breach]

    assert not breaches, "\n".join(breaches)
    assert sum(verdict.acts for verdict in verdicts) > 10 * SEEDS


def test_each_in_a_long_line_that_nobody_serves_costs_less_than_a_statement_a_second() -> None:
    world = World(0)
    loop = SimLoop(world, "node", 0.0, 1.0)  # type: ignore[abstract]
    backend = MemoryBackend(MemoryServer(lambda: round(world.now * 1000)), "0.1.0")
    stores = [Store(backend) for _ in range(30)]

    async def hold(store: Store) -> None:
        seat = Seat(store, "till", SLOTS, clock=loop.time, source=world.random)
        await seat.acquire()
        await seat.keep()

    def come(store: Store) -> None:
        loop.create_task(hold(store))

    for at, store in enumerate(stores):
        world.after(at / 10, partial(come, store))
    world.run_until(10.0)
    before = [store.statistics().calls for store in stores]
    world.run_until(110.0)
    calls = [store.statistics().calls - then for store, then in zip(stores, before, strict=True)]
    loop.drain()

    assert 100 >= max(calls) >= min(calls) > 0


def _trusted_too_long(lease: Lease | None, holder: str, sent: float, timing: Timing) -> Grant | None:
    return granted(lease, holder, sent + 4 * timing.ttl_s, timing)


def test_a_slot_that_is_trusted_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.cluster.lock.granted", _trusted_too_long)

    assert "slot is under term" in str(first_breach(lambda seed: SemaphoreSimulation(seed).run()).breach)


def test_a_line_that_the_dead_block_for_good_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tickets that never lapse: whoever crashed in line stays in it."""
    keys = keys_of("till")

    def turn(scene: Scene, token: str) -> int | None:
        ahead = [*scene.line, *scene.lapsed]
        mine = next((found.term for found in ahead if found.key == keys.ticket(token)), None)
        before = sum(mine is None or found.term < mine for found in ahead)
        free = [number for number in range(scene.slots or 0) if number not in scene.held]
        return free[before] if before < len(free) else None

    monkeypatch.setattr("tidemill.cluster.semaphore.turn", turn)
    verdict = first_breach(lambda seed: SemaphoreSimulation(seed).run())

    assert "somebody never got a slot again" in str(verdict.breach)
