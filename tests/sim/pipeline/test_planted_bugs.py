"""The simulator finds bugs of pipelines that are known to be there."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from sim.pipeline.owner import SimOwner
from sim.pipeline.run import PipelineSimulation
from sim.pipeline.worker import SimWorker
from sim.run import Verdict, quiet_logs
from tidemill.pipeline import coordinator, step
from tidemill.pipeline.log import head, output
from tidemill.pipeline.log.chain import page_out
from tidemill.pipeline.log.listing import Listing
from tidemill.pipeline.log.output import OutputLog, Written
from tidemill.pipeline.log.root import ROOTS, Failure, Root, RootOwner, _decode
from tidemill.pipeline.log.segment import SegmentRef

SEEDS = 200


def first_breach(
    run: Callable[[int], Verdict] = lambda seed: PipelineSimulation(seed).run(),
) -> str:
    with quiet_logs():
        for seed in range(SEEDS):
            verdict = run(seed)
            if verdict.breach is not None:
                return verdict.breach
    pytest.fail(f"the planted bug was not found in {SEEDS} seeds")


class ForgetfulRoot(RootOwner):
    """The assignment of a step is kept in memory until the step is done."""

    async def update(self, change: Callable[[Root], Root]) -> Root:
        after = change(self.root)
        if after.under_way is not None and self.root.under_way is None:
            self._root = after
            return after
        return await super().update(change)


class TermlessRoot(RootOwner):
    """After a conflict the document is read and written again, whoever wrote it."""

    async def _reload(self) -> None:
        found = await self._store.get(ROOTS, self._key)
        assert found is not None
        root = replace(_decode(found.body, self._key), term=self.root.term)
        self._root, self._revision, self._unsure = root, found.revision, False


class ForgetfulOwner(SimOwner):
    root_type = ForgetfulRoot


class TermlessOwner(SimOwner):
    root_type = TermlessRoot


class GreedyOwner(SimOwner):
    """Sweeps what it does not refer to, also of owners that came after it."""

    def sweeps(self, name: str) -> bool:
        return "/t" in name and f"/t{self.term}/" not in name


class ObedientWorker(SimWorker):
    """Requests are obeyed in whatever order they come, and as often."""

    async def handle(self, number: int, verb: str, *args: int) -> Any:
        del number
        return await getattr(self.cycle, verb)(*args)


def test_an_assignment_that_is_not_durable_is_found() -> None:
    breach = first_breach(lambda seed: PipelineSimulation(seed, owner_type=ForgetfulOwner).run())

    assert "which is not durable" in breach


def test_a_term_that_is_not_checked_is_found() -> None:
    breach = first_breach(lambda seed: PipelineSimulation(seed, owner_type=TermlessOwner).run())

    assert "was accepted after term" in breach


def test_a_sweep_of_what_others_may_refer_to_is_found() -> None:
    breach = first_breach(lambda seed: PipelineSimulation(seed, owner_type=GreedyOwner).run())

    assert "is gone" in breach


def test_an_output_that_is_written_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    true_write = OutputLog.write

    async def write(self: OutputLog, step: int, segments: Sequence[SegmentRef]) -> Written:
        def overwrite(root: Root) -> Root:
            records = root.steps.tail
            at = step - root.steps.tail_first
            changed = (
                *records[:at],
                replace(records[at], output=Listing(tuple(segments))),
                *records[at + 1 :],
            )
            return replace(root, steps=replace(root.steps, tail=changed))

        if output.place(self._owner.root, step) is Written.REPEATED:
            await self._owner.update(overwrite)
        return await true_write(self, step, segments)

    monkeypatch.setattr(OutputLog, "write", write)

    assert "changed afterwards" in first_breach()


def test_a_stop_at_the_smallest_step_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "max", min, raising=False)

    assert "IllegalMove" in first_breach()


def test_requests_that_are_obeyed_in_any_order_are_found() -> None:
    breach = first_breach(lambda seed: PipelineSimulation(seed, worker_type=ObedientWorker).run())

    assert "IllegalMove" in breach


def test_a_log_that_is_trimmed_too_far_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.pipeline.owner.needed_offset", lambda root: root.position)

    assert "the log was trimmed" in first_breach()


def test_pages_of_two_attempts_under_one_name_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "page_out", lambda entries, files, _: page_out(entries, files, "log/pages"))

    assert "was written twice" in first_breach()


def test_a_repeat_that_is_appended_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "_admit", lambda producers, draft, offset: None)

    assert "was appended 2 times" in first_breach()


def test_an_append_that_is_lost_with_its_step_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def abort(root: Root, number: int, failure: Failure) -> Root:
        aborted = step.abort(root, number, failure)
        return replace(aborted, position=aborted.steps.tail[-1].stop, blamed=())

    monkeypatch.setattr("sim.pipeline.owner.abort", abort)

    assert "append" in first_breach()
