"""The simulator finds bugs about tasks that are known to be there."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from sim.network import SimBackend
from sim.run import Verdict, quiet_logs
from sim.tasks.run import TaskSimulation
from sim.test_planted_bugs import CapCheckedBeforeBackend
from tidemill.cluster.lease import Grant, Timing
from tidemill.store import Document, Lease, Outcome, Write, le, one_of
from tidemill.store.backend import OnChange
from tidemill.tasks.execution import Execution
from tidemill.tasks.held import Held
from tidemill.tasks.ledger import Ledger
from tidemill.tasks.recovery import Promotion, Recovery
from tidemill.tasks.registry import SIGNALS
from tidemill.tasks.retention import Retention
from tidemill.tasks.status import CLAIMED, LIVE, is_live
from tidemill.tasks.task import TASKS, task_of

SEEDS = 300


def found(run: Callable[[int], Verdict] = lambda seed: TaskSimulation(seed).run(), saying: str = "") -> str:
    """What the first seed says that notices, in these words."""
    with quiet_logs():
        for seed in range(SEEDS):
            breach = run(seed).breach
            if breach is not None and saying in breach:
                return breach
    pytest.fail(f"the planted bug was not found in {SEEDS} seeds")


class AnyRevisionBackend(SimBackend):
    """Tasks are written over, whatever revision they have by then."""

    async def write(self, writes: Sequence[Write], nonce: int) -> list[Outcome]:
        async def handle() -> list[Outcome]:
            self.checks.handling()
            anyway = [self._anyway(write) for write in writes]
            outcomes = await self.inner.write(anyway, nonce)
            self.checks.accepted(anyway, outcomes)
            return outcomes

        return await self.call(handle)

    def _anyway(self, write: Write) -> Write:
        there = self.server.table(write.collection).get(write.key)
        over = write.collection == TASKS and write.expect is not None and there is not None
        return replace(write, expect=there.revision) if over and there is not None else write


class DeafBackend(SimBackend):
    """Never hears that a cancel was asked for."""

    def subscribe(self, channels: Sequence[str], on_change: OnChange) -> None:
        super().subscribe([name for name in channels if name != SIGNALS.name], on_change)


def test_writes_whatever_the_revision_are_found() -> None:
    assert found(lambda seed: TaskSimulation(seed, backend_type=AnyRevisionBackend).run())


def test_recovery_without_a_new_term_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def take(recovery: Recovery) -> list[Document]:
        store = recovery._store
        return (await store.find(TASKS, one_of("status", LIVE), le("expire", await store.now()))).documents

    monkeypatch.setattr(Recovery, "_take", take)

    assert found(saying="holds it")


def test_a_cap_counted_before_the_claim_is_found() -> None:
    assert "may" in found(lambda seed: TaskSimulation(seed, backend_type=CapCheckedBeforeBackend).run())


def test_a_node_that_writes_on_after_its_lease_was_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the task as it finds it, and writes down what came of its own run."""

    def reread(ledger: Ledger, held: Held, there: Document | None) -> bool:
        if there is None or not is_live(task_of(there).status):
            return true_reread(ledger, held, there)
        held.document, held.task, held.lost = there, task_of(there), False
        return True

    true_reread = Ledger._reread
    monkeypatch.setattr(Ledger, "_reread", reread)

    assert found(saying="holds it")


def test_a_promotion_that_forgets_what_is_to_be_tried_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def release(promotion: Promotion, due: Sequence[Document], now: int) -> None:
        await true_release(promotion, [one for one in due if task_of(one).attempt == 0], now)

    true_release = Promotion._release
    monkeypatch.setattr(Promotion, "_release", release)

    assert "are not done" in found()


def test_recovery_that_forgets_what_runs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.tasks.recovery.LIVE", (CLAIMED,))

    assert "are not done" in found()


def test_a_lease_that_is_trusted_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_long(lease: Lease | None, holder: str, sent: float, timing: Timing) -> Grant | None:
        if lease is None or not lease.held_by(holder):
            return None
        return Grant(lease.key, lease.term, sent + 1.5 * timing.ttl_s)

    monkeypatch.setattr("tidemill.cluster.keeper.granted", too_long)

    assert "task is under term" in found()


def test_a_run_that_goes_on_after_its_lease_was_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Execution, "lose", lambda execution, held: None)

    assert "goes on with" in found()


def test_a_cancel_that_nobody_looks_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hint may be lost, and then nothing else tells of it."""
    monkeypatch.setattr("tidemill.tasks.hearing.ANYWAY_S", 3600.0)

    assert "are not done" in found(lambda seed: TaskSimulation(seed, backend_type=DeafBackend).run())


def test_a_removal_at_whatever_revision_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may have queued the task again since it was looked at."""

    async def remove(retention: Retention, over: Sequence[Document]) -> int:
        await asyncio.sleep(5.0)
        now = await retention._store.get_many(TASKS, [one.key for one in over])
        return await true_remove(retention, list(now.values()))

    true_remove = Retention._remove
    monkeypatch.setattr(Retention, "_remove", remove)

    assert found(saying="was removed")
