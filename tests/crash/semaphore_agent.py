"""A process that takes a slot of a semaphore and writes entries under its fence until it loses it.

python -m crash.semaphore_agent STORE NAME [--slots N] [--ttl S]

It prints one JSON line for each thing that happens. Once it has lost its slot it writes one more entry under
the last fence that it had, which only the store can stop, and gets in line again.
"""

import argparse
import time
from collections.abc import Callable

import tidemill
from crash.agent import ENTRIES, PAUSE_S, say
from tidemill.base.bridge import LoopThread
from tidemill.base.ids import new_id
from tidemill.store import Fence, Fenced, Store, StoreError, open_store


async def write(store: Store, guard: Fence, name: str) -> None:
    try:
        await store.create(
            ENTRIES, new_id(), {"term": guard.term, "slot": guard.key, "by": name}, fence=guard
        )
        say("wrote", term=guard.term, slot=guard.key)
    except Fenced:
        say("fenced", term=guard.term, slot=guard.key)
    except StoreError as error:
        say("failed", code=error.code)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("name")
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--ttl", type=float, default=5.0)
    chosen = parser.parse_args()
    store = open_store(chosen.store, timeout_s=chosen.ttl)
    semaphore = tidemill.Semaphore(chosen.store, "gpu", slots=chosen.slots, ttl_s=chosen.ttl)
    with LoopThread() as loop:
        loop.run(store.open())
        say("joined")
        while True:
            try:
                with semaphore:
                    use(semaphore, lambda guard: loop.run(write(store, guard, chosen.name)))
            except StoreError as error:
                say("failed", code=error.code)


def use(semaphore: tidemill.Semaphore, act: Callable[[Fence], None]) -> None:
    """Act while the slot is held, and once more when it is lost."""
    guard = semaphore.guard()
    say("in", term=guard.term, slot=guard.key)
    while semaphore.held:
        act(guard)
        time.sleep(PAUSE_S)
    say("lost", term=guard.term)
    act(guard)


if __name__ == "__main__":
    main()
