"""The simulator finds bugs that are known to be there, so its silence means something."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from sim.network import SimBackend
from sim.node import SimNode
from sim.run import Simulation, Verdict, quiet_logs
from tidemill.cluster import standing
from tidemill.cluster.lease import Grant, Timing
from tidemill.store import Claim, Collection, Document, Fence, Lease, Lost, Outcome, Write
from tidemill.store import store as store_module
from tidemill.store.backend import Backend

SEEDS = 200


def first_breach(run: Callable[[int], Verdict]) -> Verdict:
    with quiet_logs():
        for seed in range(SEEDS):
            verdict = run(seed)
            if verdict.breach is not None:
                return verdict
    pytest.fail(f"the planted bug was not found in {SEEDS} seeds")


class LocalClockBackend(SimBackend):
    """Leases are granted and judged by the machine's own clock instead of the store's."""

    async def hold(
        self, collection: Collection, keys: Sequence[str], holder: str, ttl_ms: int
    ) -> list[Lease]:
        async def handle() -> list[Lease]:
            true_time = self.server.now_ms
            ahead_ms = int((self.loop.offset - 100.0) * 1000)
            self.server.now_ms = lambda: true_time() + ahead_ms
            try:
                return await self.inner.hold(collection, keys, holder, ttl_ms)
            finally:
                self.server.now_ms = true_time

        return await self.call(handle)


class CapCheckedBeforeBackend(SimBackend):
    """The caps are looked at first, and the claim is made afterwards, without them."""

    async def claim(self, collection: Collection, claim: Claim, nonce: int) -> list[Document]:
        room = claim.n
        for cap in claim.caps:
            room = min(room, cap.limit - await self.count(collection, cap.where, cap.limit))
        if room < 1:
            return []
        bare = Claim(claim.where, claim.holder, claim.ttl_ms, room, claim.sort, claim.set)
        return await super().claim(collection, bare, nonce)


class UnfencedNode(SimNode):
    """The leader writes without its term."""

    def fence(self) -> Fence | None:
        return None


def _trusted_too_long(lease: Lease | None, holder: str, sent: float, timing: Timing) -> Grant | None:
    if lease is None or not lease.held_by(holder):
        return None
    return Grant(lease.key, lease.term, sent + 1.5 * timing.ttl_s)


def test_leases_by_the_local_clock_are_found() -> None:
    verdict = first_breach(lambda seed: Simulation(seed, backend_type=LocalClockBackend).run())

    assert "under term" in str(verdict.breach)


def test_a_missing_fence_is_found() -> None:
    verdict = first_breach(lambda seed: Simulation(seed, node_type=UnfencedNode).run())

    assert "an accepted write is under term" in str(verdict.breach)


def test_a_renewal_that_is_trusted_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "granted", _trusted_too_long)
    verdict = first_breach(lambda seed: Simulation(seed).run())

    assert "under term" in str(verdict.breach)


def test_a_lock_that_is_trusted_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.cluster.lock.granted", _trusted_too_long)
    verdict = first_breach(lambda seed: Simulation(seed).run())

    assert "lock is under term" in str(verdict.breach)


def test_a_lease_trusted_from_the_answer_on_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The margin hides this on a good network; an answer that takes longer than the margin shows it."""
    true_observe = standing.observe

    def observe(
        before: standing.Standing, leases: Mapping[str, Lease], sent: float, answered: float, timing: Timing
    ) -> tuple[standing.Standing, list[standing.Event]]:
        return true_observe(before, leases, answered, answered, timing)

    monkeypatch.setattr("tidemill.cluster.heart.observe", observe)
    verdict = first_breach(lambda seed: Simulation(seed).run())

    assert "under term" in str(verdict.breach)


def test_a_cap_checked_before_the_claim_is_found() -> None:
    verdict = first_breach(lambda seed: Simulation(seed, backend_type=CapCheckedBeforeBackend).run())

    assert "tasks run" in str(verdict.breach)


def test_a_guess_about_a_lost_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def guess(backend: Backend, writes: Sequence[Write], nonce: int) -> list[Outcome]:
        del backend, nonce
        return [Lost() for _ in writes]

    monkeypatch.setattr(store_module, "settle", guess)
    verdict = first_breach(lambda seed: Simulation(seed).run())

    assert "was told that it was lost" in str(verdict.breach)


def test_a_breach_names_the_command_that_replays_it() -> None:
    verdict = first_breach(lambda seed: Simulation(seed, node_type=UnfencedNode).run())

    assert verdict.replay() == f"make sim SEED={verdict.seed}"
    assert any("BREACH" in line for line in verdict.trace)
