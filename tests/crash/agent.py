"""A process that joins the cluster and, whenever it leads, writes entries under its fence.

python -m crash.agent STORE NAME [--zombie] [--ttl S]

It prints one JSON line for each thing that happens. With --zombie it does not check whether it still
may lead, and goes on writing under the last fence that it had, so that only the store can stop it.
"""

import argparse
import asyncio
import json
import time

from tidemill.base.errors import TidemillError
from tidemill.base.ids import new_id, new_token
from tidemill.cluster import Gained, HeartThread, NotLeader, Timing, join
from tidemill.cluster.standing import Event, Lost
from tidemill.store import Collection, Fence, Fenced, Store, open_store

ENTRIES = Collection("entries")
PAUSE_S = 0.01


def say(event: str, **facts: object) -> None:
    print(json.dumps({"event": event, "at": time.monotonic(), **facts}), flush=True)


def on_event(event: Event) -> None:
    match event:
        case Gained(grant):
            say("gained", term=grant.term)
        case Lost(term):
            say("lost", term=term)
        case _:
            pass


async def write_while_leading(store: Store, heart: HeartThread, name: str, *, zombie: bool) -> None:
    fence: Fence | None = None
    while True:
        try:
            fence = heart.fence()
        except NotLeader:
            fence = fence if zombie else None
        if fence is not None:
            await write(store, fence, name)
        await asyncio.sleep(PAUSE_S)


async def write(store: Store, fence: Fence, name: str) -> None:
    try:
        await store.create(ENTRIES, new_id(), {"term": fence.term, "by": name}, fence=fence)
        say("wrote", term=fence.term)
    except Fenced:
        say("fenced", term=fence.term)
    except TidemillError as error:
        say("failed", code=error.code)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("name")
    parser.add_argument("--zombie", action="store_true")
    parser.add_argument("--ttl", type=float, default=5.0)
    chosen = parser.parse_args()
    timing, token = Timing(chosen.ttl), new_token()
    async with open_store(chosen.store, timeout_s=timing.trust_s) as store:
        key = await join(store, chosen.name, 1, token, chosen.name, timing)
        heart = HeartThread(chosen.store, token, key, timing, on_event)
        await heart.start()
        say("joined", token=token)
        await write_while_leading(store, heart, chosen.name, zombie=chosen.zombie)


if __name__ == "__main__":
    asyncio.run(main())
