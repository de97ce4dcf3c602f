"""The driver as its parent has it: started, listened to, and never outliving it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from tidemill.app.demo.figures import Figures

DRIVER = ("-m", "tidemill.app.demo.driver")
_LINE_BYTES = 1 << 20
_PATIENCE_S = 8.0


class Driver:
    """A running driver. `figures` is what it told last; `running` is done once its pipeline is."""

    def __init__(self, process: asyncio.subprocess.Process, show: Callable[[Figures], None]) -> None:
        self.figures = Figures("starting")
        self.running = asyncio.get_running_loop().create_future()
        self._process = process
        self._show = show
        self._stopping = False
        self.ended = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        """Until it ends. Without a last word it has failed, unless it was to stop."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self._hear(msgspec.json.decode(line, type=Figures))
        if self.figures.phase not in ("finished", "failed") and not self._stopping:
            self._hear(Figures("failed", "the driver has died"))

    def _hear(self, figures: Figures) -> None:
        if figures.phase == "failed":
            last = {"phase": figures.phase, "said": figures.said, "code": figures.code}
            figures = msgspec.structs.replace(self.figures, **last)
        self.figures = figures
        self._show(figures)
        if figures.phase == "running" and not self.running.done():
            self.running.set_result(None)

    def finish(self) -> None:
        """Have it check what it has not checked yet, and end."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"finish\n")

    async def stop(self) -> None:
        """Have it end at once; if it does not, end it."""
        assert self._process.stdin is not None
        self._stopping = True
        self._process.stdin.close()
        try:
            await asyncio.wait_for(asyncio.shield(self.ended), _PATIENCE_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        await self.ended
        await self._process.wait()


@asynccontextmanager
async def driver(
    folder: Path, file: Path | None, log: Path, show: Callable[[Figures], None]
) -> AsyncIterator[Driver]:
    """A driver for a pipeline in the folder; what Spark and it have to say goes to the log."""
    # In a session of its own, since Ctrl-C is for the node, which then ends the pipeline in order.
    with log.open("ab") as noise:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *DRIVER,
            str(folder),
            *(("--sql", str(file)) if file else ()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=noise,
            limit=_LINE_BYTES,
            start_new_session=True,
        )
    child = Driver(process, show)
    try:
        yield child
    finally:
        await child.stop()
