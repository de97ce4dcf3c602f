"""A process with a pool of its own, to be killed. It prints the processes that must die with it."""

import asyncio
import sys
from pathlib import Path

from tidemill.tasks.runner import Plugins, Pool
from unit.tasks.runner.listening import Recorder, act, program


async def main(folder: Path) -> None:
    seen = Recorder()
    holds = act("leaves_a_process", "hang")
    shell = program("script")
    script = ["/bin/sh", "-c", "setsid sleep 1000 & echo $$ $!; wait"]
    pool = Pool(2, seen, Plugins([str(holds.plugin)], {"script": script}), folder)
    await pool.start()
    pool.hand_in([holds, shell])
    await seen.until(lambda: len(seen.written) == 2)
    print(
        pool.starting.pid,
        *(pid for text in seen.written.values() for pid in text.decode().split()),
        flush=True,
    )
    await asyncio.Event().wait()


asyncio.run(main(Path(sys.argv[1])))
