"""The simulator finds bugs about partitions that are known to be there."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from sim.partitions.node import PartitionNode
from sim.partitions.run import PartitionSimulation
from sim.run import Verdict, quiet_logs
from tidemill.cluster import PARTITIONS, Follower, Partition, Supervised, Windowed, Work
from tidemill.cluster.lease import Grant, Timing
from tidemill.cluster.partitions import FAILED, read_leases
from tidemill.cluster.spread import Peer
from tidemill.store import Fence, Lease, Write, eq

SEEDS = 300


def found(
    run: Callable[[int], Verdict] = lambda seed: PartitionSimulation(seed).run(), saying: str = ""
) -> str:
    """What the first seed says that notices, in these words."""
    with quiet_logs():
        for seed in range(SEEDS):
            breach = run(seed).breach
            if breach is not None and saying in breach:
                return breach
    pytest.fail(f"the planted bug was not found in {SEEDS} seeds")


class UnfencedNode(PartitionNode):
    """A handler writes without its term."""

    def handler_fence(self, fence: Fence) -> Fence | None:
        return None


def test_a_handler_that_writes_without_its_term_is_found() -> None:
    assert "an accepted effect is under term" in found(
        lambda seed: PartitionSimulation(seed, node_type=UnfencedNode).run()
    )


def test_a_renewal_that_is_trusted_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_long(lease: Lease | None, holder: str, sent: float, timing: Timing) -> Grant | None:
        if lease is None or not lease.held_by(holder):
            return None
        return Grant(lease.key, lease.term, sent + 1.5 * timing.ttl_s)

    monkeypatch.setattr("tidemill.cluster.keeper.granted", too_long)

    assert "handler is under term" in found()


def test_a_result_written_without_a_fence_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def unfenced(*parts: Any) -> Write:
        return replace(Write(*parts), fence=None)

    monkeypatch.setattr("tidemill.cluster.work.Write", unfenced)
    monkeypatch.setattr(Work, "fence", lambda work: Fence(PARTITIONS, work.key, work.grant.term))

    # The handler now trusts its lease for ever, which other seeds notice before its result does harm.
    assert found(saying="is done")


def test_a_stopped_handler_that_counts_as_done_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def end(follower: Follower, work: Work, handling: "asyncio.Task[None]") -> None:
        await asyncio.wait([handling])
        work._stop.clear()
        await true_end(follower, work, handling)

    true_end = Follower._end
    monkeypatch.setattr(Follower, "_end", end)

    assert "was not carried through" in found()


def test_a_task_that_is_dropped_when_its_handler_raised_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(body: dict[str, Any], error: str, now: int) -> dict[str, Any]:
        return {**body, "state": FAILED, "error": error, "not_before": now}

    monkeypatch.setattr("tidemill.cluster.work.after_failure", give_up)

    assert "tasks were left undone" in found()


def test_taking_all_that_fits_is_found_as_uneven(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(
        free: Sequence[Partition], peers: Sequence[Peer], me: str, spare: int, overdue: Collection[str]
    ) -> list[Partition]:
        del peers, me, overdue
        return list(free[:spare])

    monkeypatch.setattr("tidemill.cluster.follower.choose", greedy)

    assert "unevenly" in found()


def test_a_restart_that_does_not_wait_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def close(leader: Supervised) -> None:
        there = await read_leases(leader._store, eq("handler", leader.handler))
        await leader._remove(there)

    monkeypatch.setattr(Supervised, "_close", close)

    assert "handler is under term" in found()


def test_removing_before_telling_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader dies in between, and nobody ever tells the source."""

    async def round_of(leader: Windowed) -> float:
        there = await read_leases(leader._store, eq("handler", leader.handler))
        done = [seen for seen in there if seen.state == "done"]
        await leader._remove(done)
        await leader._source.finished([seen.name for seen in done])
        return await true_round(leader)

    true_round = Windowed.round
    monkeypatch.setattr(Windowed, "round", round_of)

    assert "done twice" in found()
