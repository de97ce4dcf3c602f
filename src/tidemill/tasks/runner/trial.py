"""Whether the plugins of a node can be run there, found out before a task depends on it.

Loading a plugin runs its code, and none of that is for the node's own process: runners do it.
"""

import asyncio
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tidemill.base.log import get_logger
from tidemill.tasks.runner.job import Crashed, Ending, Finished, Job, Stream
from tidemill.tasks.runner.plugins import Plugins, ProgramPlugin, PythonPlugin
from tidemill.tasks.runner.pool import Pool
from tidemill.tasks.status import SUCCEEDED

log = get_logger("tidemill.plugins")

LOADER = "tidemill.tasks.runner.plugins:load_only"
SIZE = 2

PATIENCE_S = 10.0
"""For how long plugins are tried. Those that take longer to load are believed to do so."""


async def try_plugins(plugins: Plugins, folder: Path) -> None:
    """Have `plugins` refuse those that cannot be run here, and say which in the log.

    Programs are looked for; what is in Python is loaded by a pool of runners, which has the folder and is
    gone on return. Where there can be no such pool, all are believed.
    """
    targets: dict[str, str] = {}
    for name in plugins.names():
        match plugins.find(name):
            case ProgramPlugin(command) if shutil.which(command[0]) is None:
                plugins.refuse(name, f"there is no program {command[0]!r} that this node may run")
            case PythonPlugin(target):
                targets[name] = target
    if targets:
        for name, reason in (await _failures(targets, folder)).items():
            plugins.refuse(name, f"it cannot be loaded: {reason}")
    for name, reason in plugins.broken().items():
        log.warning("plugin.broken", plugin=name, reason=reason)


class _Endings:
    """Gathers how jobs end, by their ids."""

    def __init__(self, expected: int) -> None:
        self.endings: dict[str, Ending] = {}
        self.complete = asyncio.Event()
        self._expected = expected

    def started(self, job: Job) -> None:
        pass

    def progressed(self, job: Job, percent: float | None, info: str | None) -> None:
        pass

    def wrote(self, job: Job, stream: Stream, offset: int, data: bytes) -> None:
        pass

    def ended(self, job: Job, ending: Ending) -> None:
        self.endings[job.id] = ending
        if len(self.endings) == self._expected:
            self.complete.set()


async def _failures(targets: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Those of the plugins that could not be loaded, with the reason."""
    heard = _Endings(len(targets))
    pool = Pool(SIZE, heard, Plugins(), folder, caller=LOADER)
    jobs = [Job(name, 0, 1, "trial", "function", payload=target.encode()) for name, target in targets.items()]
    try:
        await pool.start()
        pool.hand_in(jobs)
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await heard.complete.wait()
    except OSError as error:
        log.warning("plugins.not_tried", error=str(error))
    finally:
        await pool.stop(0)
    return {name: reason for name, ending in heard.endings.items() if (reason := _reason(ending))}


def _reason(ending: Ending) -> str | None:
    """Why the plugin cannot be loaded, if that is what the ending says."""
    match ending:
        case Finished() if ending.status != SUCCEEDED:
            return ending.reason or "its import failed"
        case Crashed(reason):
            return reason
        case _:
            return None
