"""A pool whose processes are killed at random moments: every job ends, and exactly once."""

import os
import random
import signal
from pathlib import Path

import psutil
import pytest

from tidemill.tasks.runner import Crashed, Ending, Finished, Job, Pool, Recycle, Stopped
from unit.tasks.runner.listening import ACTS, EVERY_ACT, Recorder, act, function

pytestmark = pytest.mark.long

JOBS = 500
KILL_EVERY = 20
KILL_STARTER_EVERY = 190


class Saboteur(Recorder):
    """Kills somebody each time that so many jobs have ended."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.pool: Pool | None = None
        self._chance = chance

    def ended(self, job: Job, ending: Ending) -> None:
        super().ended(job, ending)
        starter = self.pool.starting.pid if self.pool else None
        hits_runner = len(self.endings) % KILL_EVERY == 0
        hits_starter = len(self.endings) % KILL_STARTER_EVERY == 0
        if starter is None or not (hits_runner or hits_starter):
            return
        try:
            runners = [] if hits_starter else psutil.Process(starter).children()
            os.kill(self._chance.choice(runners).pid if runners else starter, signal.SIGKILL)
        except (psutil.NoSuchProcess, ProcessLookupError):
            pass  # it died by itself


def job_by(chance: random.Random) -> Job:
    return chance.choice(
        [
            function(b"x"),
            function(b"x"),
            act("Greets", "you"),
            act("Greets", "you"),
            act("exits_at_once", 3),
            act("hangs", timeout_s=0.01, grace_s=0.1),
            act("will_not_end", timeout_s=0.01, grace_s=0.01),
            act("leaves_a_copy"),
            act("leaves_a_thread"),
            act("writes", 100_000),
        ]
    )


@pytest.mark.crash
@pytest.mark.parametrize("seed", [1, 2])
async def test_every_job_ends_once_with_its_own_output(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    seen = Saboteur(chance)
    seen.pool = pool = Pool(3, seen, EVERY_ACT, tmp_path / "pool", Recycle(tasks=50), caller=f"{ACTS}:call")
    await pool.start()
    jobs = [job_by(chance) for _ in range(JOBS)]
    pool.hand_in(jobs)
    await seen.until(lambda: len(seen.endings) == JOBS)
    await seen.until(lambda: pool.running == 0)
    statistics = pool.statistics()
    await pool.stop(0)

    assert (statistics.waiting, statistics.untouched) == (0, 0)
    assert statistics.finished + statistics.crashed + statistics.stopped == JOBS
    for job in jobs:
        ending = seen.endings[job.id]
        assert isinstance(ending, Finished | Crashed | Stopped)
        if isinstance(ending, Finished) and job.plugin == f"{ACTS}:Greets":
            assert (ending.status, ending.stdout.content) == (7, b"hello you\nbye\n")
        elif isinstance(ending, Finished):
            assert ending.stdout.content in (b"", None)
