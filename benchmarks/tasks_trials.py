"""The trials of `tasks.py`, each of one system on an empty store of its own."""

import math
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from task_peers.body import BEGAN, ENDED, SLOW_S, Mark, count_marks, read_marks
from task_peers.catalogue import System
from tasks_crew import Stage, TrialFailed, cpu_s, family, kill
from tasks_places import Places

_STALL_S = 60.0
_KILL_TASKS = 200
_KILL_AFTER = 60
_AIMS = 5
_SETTLE_S = 5.0
_MEMORY = Path("/dev/shm")  # marks must not wait for a disk


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    tasks: int | None = None
    share: float = 1.0
    rounds: int = 3
    calls: int = 200
    idle_s: float = 20.0
    kill_s: float = 30.0

    def of(self, system: System) -> int:
        """How many tasks this system is to drain."""
        return self.tasks or int(system.tasks * self.share)


QUICK = Sizes(share=0.1, rounds=1, calls=50, idle_s=3.0, kill_s=12.0)


@contextmanager
def staged(places: Places, system: System, trial: str) -> Iterator[Stage]:
    """A system on an empty store, prepared."""
    memory = _MEMORY if _MEMORY.is_dir() else None
    with (
        places.empty(system.place) as store,
        tempfile.TemporaryDirectory(prefix="tidemill-tasks-", ignore_cleanup_errors=True) as folder,
        tempfile.NamedTemporaryFile(prefix="tidemill-marks-", dir=memory) as marks,
    ):
        stage = Stage(system, store, trial, Path(folder), Path(marks.name))
        stage.drive("prepare")
        yield stage


def throughput(places: Places, system: System, sizes: Sizes) -> dict[str, float | None]:
    """Rates of sending one at a time and at once, and of draining what was sent.

    The queue is filled first, then the workers start, and the rate is that from the first task's end to the
    last's. Afterwards some of the results are read, so that nobody can have left them out.
    """
    total = sizes.of(system)
    singles = max(20, total // 10)
    with staged(places, system, "throughput") as stage:
        sent = stage.drive("enqueue", singles, max(20, total - singles))
        with stage.workers(system.crew) as crew:
            _wait_for_marks(stage, crew, sent["sent"])
            stage.drive("check", *sent["ids"])
        ends = [mark.ns for mark in read_marks(stage.marks)]
    drain = (len(ends) - 1) * 1e9 / (max(ends) - min(ends))
    return {"single": sent["single"], "bulk": sent["bulk"], "drain": drain}


def attention(places: Places, system: System, sizes: Sizes) -> dict[str, float | None]:
    """Times from sending to result with idle workers, in ms; then what the same workers cost, left alone.

    The cost is in per cent of one core, over all their processes.
    """
    with staged(places, system, "latency") as stage, stage.workers(system.attentive) as crew:
        times = sorted(stage.drive("latency", sizes.calls)["seconds"])
        stage.check_alive(crew)
        time.sleep(_SETTLE_S)
        before, began = cpu_s(crew), time.monotonic()
        time.sleep(sizes.idle_s)
        idle = 100 * (cpu_s(crew) - before) / (time.monotonic() - began)
        stage.check_alive(crew)
    p99 = times[math.ceil(0.99 * len(times)) - 1]
    return {"p50": statistics.median(times) * 1e3, "p99": p99 * 1e3, "idle": idle}


def killing(places: Places, system: System, sizes: Sizes) -> dict[str, float | None]:
    """What becomes of 200 tasks of 50 ms when one of two workers is killed in the midst of one of them.

    `lost` have not ended when the window is over, `doubled` have ended more than once; `rerun` is the time
    from the kill to the killed task's next begin, None when there was none.
    """
    for _ in range(_AIMS):
        with staged(places, system, "kill") as stage:
            stage.drive("slow", _KILL_TASKS)
            with stage.workers([system.instance] * 2) as crew:
                victim = _aim(stage, crew)
                at = time.monotonic_ns()
                kill(crew[0])
                if victim in _ended(read_marks(stage.marks)):
                    continue  # it got to its end just before
                _watch(stage, at, sizes.kill_s)
            return _damage(read_marks(stage.marks), victim, at)
    raise TrialFailed(f"in {_AIMS} attempts no kill hit a worker within a task")


def _wait_for_marks(stage: Stage, crew: Sequence[psutil.Popen], wanted: int) -> None:
    seen, since = 0, time.monotonic()
    while (there := count_marks(stage.marks)) < wanted:
        if there > seen:
            seen, since = there, time.monotonic()
        elif time.monotonic() > since + _STALL_S:
            raise TrialFailed(f"no task ended for {_STALL_S:.0f} s, with {there} of {wanted} done")
        stage.check_alive(crew)
        time.sleep(0.02)


def _aim(stage: Stage, crew: Sequence[psutil.Popen]) -> int:
    """The task that the first worker is in the midst of, once enough have ended."""
    deadline = time.monotonic() + _STALL_S
    while time.monotonic() < deadline:
        stage.check_alive(crew)
        marks = read_marks(stage.marks)
        ended = _ended(marks)
        pids = {member.pid for member in family(crew[0])}
        for mark in reversed(marks if len(ended) >= _KILL_AFTER else []):
            age_s = (time.monotonic_ns() - mark.ns) / 1e9
            if mark.kind == BEGAN and mark.pid in pids and mark.task not in ended and age_s < SLOW_S / 2:
                return mark.task
        time.sleep(0.003)
    raise TrialFailed(f"the first worker was in no task, with {len(ended)} done")


def _watch(stage: Stage, at: int, window_s: float) -> None:
    """Until the window is over; or earlier, when all have ended and a while has shown no second end."""
    while (since_s := (time.monotonic_ns() - at) / 1e9) < window_s:
        if since_s > window_s / 2 and len(_ended(read_marks(stage.marks))) == _KILL_TASKS:
            return
        time.sleep(0.05)


def _damage(marks: list[Mark], victim: int, at: int) -> dict[str, float | None]:
    ends = Counter(mark.task for mark in marks if mark.kind == ENDED)
    again = [mark.ns for mark in marks if mark.kind == BEGAN and mark.task == victim and mark.ns > at]
    return {
        "lost": _KILL_TASKS - len(ends),
        "doubled": sum(times > 1 for times in ends.values()),
        "rerun": (min(again) - at) / 1e9 if again else None,
    }


def _ended(marks: list[Mark]) -> set[int]:
    return {mark.task for mark in marks if mark.kind == ENDED}
