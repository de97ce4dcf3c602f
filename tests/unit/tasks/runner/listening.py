"""Somebody who listens to a pool, and jobs to hand to it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from tidemill.tasks.runner import Ending, Job, Limits, Listener, Plugins, Pool, Recycle
from unit.tasks.runner import acts

HERE = "unit.tasks.runner"
ACTS = f"{HERE}.acts"
EXAMPLE = Path(__file__).parents[4] / "examples" / "plugins" / "word_count.pl"


class Recorder(Listener):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.progress: list[tuple[float | None, str | None]] = []
        self.written: dict[tuple[str, str], bytes] = {}
        self.endings: dict[str, Ending] = {}
        self._changed = asyncio.Event()

    def started(self, job: Job) -> None:
        self._tell("started", job)

    def progressed(self, job: Job, percent: float | None, info: str | None) -> None:
        self.progress.append((percent, info))
        self._tell("progressed", job)

    def wrote(self, job: Job, stream: str, offset: int, data: bytes) -> None:
        so_far = self.written.get((job.id, stream), b"")
        assert offset == len(so_far)
        self.written[job.id, stream] = so_far + data
        self._tell("wrote", job)

    def ended(self, job: Job, ending: Ending) -> None:
        assert job.id not in self.endings
        self.endings[job.id] = ending
        self._tell("ended", job)

    def _tell(self, what: str, job: Job) -> None:
        self.told.append((what, job.id))
        self._changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    async def end_of(self, job: Job) -> Any:
        await self.until(lambda: job.id in self.endings)
        return self.endings[job.id]


class OpenPool(Protocol):
    """Opens a pool that is stopped after the test."""

    async def __call__(
        self, size: int = 2, *, plugins: Plugins | None = None, recycle: Recycle | None = None
    ) -> tuple[Pool, Recorder]: ...


EVERY_ACT = Plugins(
    [f"{ACTS}:{name}" for name in (*vars(acts), "absent")]
    + [f"{HERE}.exits_on_import:anything", f"{HERE}.dies_on_import:anything"]
)


_numbers = iter(range(1, 1_000_000))


def act(name: str, params: Any = None, **limits: Any) -> Job:
    """A job of one of the plugins in `acts`, or of the plugin of that name if it has a dot."""
    plugin = name if "." in name else f"{ACTS}:{name}"
    number = next(_numbers)
    return Job(f"task-{number}", number, 1, "demo", "plugin", plugin, params, limits=Limits(**limits))


def program(name: str, params: Any = None, **limits: Any) -> Job:
    number = next(_numbers)
    return Job(f"task-{number}", number, 1, "demo", "plugin", name, params, limits=Limits(**limits))


def function(payload: bytes) -> Job:
    """A job of a function; what calls it is `acts.call`."""
    number = next(_numbers)
    return Job(f"task-{number}", number, 1, "calls", "function", payload=payload)
