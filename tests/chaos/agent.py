"""An agent: a process that takes part until it is terminated.

python -m chaos.agent STORE NAME FOLDER [--careless] [--blind] [--idle]

It says in lines of JSON what happens. With --idle it waits for a line on its input before it joins, and then
only is there.
"""

import argparse
import asyncio
import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from chaos.acts import Actor, Threads, do_task, duties, lead, run_shard
from chaos.words import CROWD_LEASE, LEASE, PARTITION_LEASE, SHARDS, TASKS, TEMPORARY, say
from tidemill.base.errors import TidemillError
from tidemill.cluster import Member, Work, taking_part
from tidemill.store import Store


class Hands:
    """The handlers, which are registered before the member exists whose hands they are."""

    def __init__(self, make: Callable[[Store, str], Actor]) -> None:
        self._make = make
        self._actor: asyncio.Future[Actor] = asyncio.get_running_loop().create_future()

    def of(self, member: Member) -> Actor:
        actor = self._make(member.store, member.token)
        self._actor.set_result(actor)
        return actor

    async def task(self, work: Work) -> None:
        await do_task(await self._actor, work)

    async def shard(self, work: Work) -> None:
        await run_shard(await self._actor, work)


async def serve(url: str, name: str, make: Callable[[Store, str], Actor], stop: asyncio.Event) -> None:
    hands = Hands(make)
    taking = partial(taking_part, url, name, timing=LEASE, partition_timing=PARTITION_LEASE)
    async with taking({TASKS: hands.task, SHARDS: hands.shard}, slots=3, duties=duties) as member:
        actor = hands.of(member)
        say("joined", token=member.token)
        threads = Threads(actor, url)
        leading = asyncio.create_task(lead(actor, member.heart))
        threads.start()
        await stop.wait()
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        await threads.stop()
    say("left")


async def idle(url: str, name: str, stop: asyncio.Event) -> None:
    """Join as soon as told, and again if the store was too busy to be joined."""
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)
    taking = partial(taking_part, url, name, timing=CROWD_LEASE, partition_timing=PARTITION_LEASE)
    while not stop.is_set():
        try:
            async with taking({}, slots=0, duties=duties) as member:
                say("joined", token=member.token)
                await stop.wait()
        except TidemillError as error:
            say("failed", kind="join", code=error.code)
    say("left")


def sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


async def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("name")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--careless", action="store_true")
    parser.add_argument("--blind", action="store_true")
    parser.add_argument("--idle", action="store_true")
    chosen = parser.parse_args()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    make = partial(Actor, folder=chosen.folder, careless=chosen.careless, blind=chosen.blind)
    joining = (
        idle(chosen.store, chosen.name, stop) if chosen.idle else serve(chosen.store, chosen.name, make, stop)
    )
    try:
        await joining
    except TidemillError as error:
        say("ended", code=error.code, error=str(error))
        return TEMPORARY
    return os.EX_OK


if __name__ == "__main__":
    if "FAKETIME" in os.environ:
        # The library that sets the clock off breaks the kind of sleep that Python asks for.
        time.sleep = sleep  # type: ignore[assignment]
    with contextlib.suppress(BrokenPipeError):
        sys.exit(asyncio.run(main()))
