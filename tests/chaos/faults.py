"""What is done to the agents and their database. Each fault ends by itself, and undoes what can be undone."""

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TypeAlias

from chaos.stage import Agent, Stage
from chaos.words import LEASE, PARTITION_LEASE

Fault: TypeAlias = Callable[[Stage, random.Random], Awaitable[None]]

LONGEST_LEASE_S = max(LEASE.ttl_s, PARTITION_LEASE.ttl_s)


async def kill(stage: Stage, source: random.Random) -> None:
    """kill -9; the agent is started again by whoever minds it."""
    source.choice(stage.agents).send(signal.SIGKILL)


async def kill_half(stage: Stage, source: random.Random) -> None:
    """Half of the agents at one moment, as when a machine or a rack goes."""
    for agent in source.sample(stage.agents, len(stage.agents) // 2):
        agent.send(signal.SIGKILL)


async def freeze(stage: Stage, source: random.Random) -> None:
    """Stopped until all its leases have passed on, then continued: a zombie that knows nothing of it."""
    await _frozen([source.choice(stage.agents)], LONGEST_LEASE_S * source.uniform(1.1, 2.5))


async def stutter(stage: Stage, source: random.Random) -> None:
    """Stopped for about a lease, so that it comes back at the very edge of its trust."""
    await _frozen([source.choice(stage.agents)], LEASE.ttl_s * source.uniform(0.7, 1.1))


async def crash_database(stage: Stage, source: random.Random) -> None:
    """The database is gone in the middle of whatever it does, and comes back."""
    await stage.database.crash(source.uniform(0.2, 2 * LEASE.ttl_s))


async def fill_disk(stage: Stage, source: random.Random) -> None:
    """No file of one agent can grow: neither its own, nor its log, nor the database if that is a file."""
    agent = source.choice(stage.agents)
    agent.limit_files(0)
    try:
        await asyncio.sleep(source.uniform(1.0, 2 * LONGEST_LEASE_S))
    finally:
        agent.limit_files(-1)


FAULTS: Mapping[str, tuple[Fault, int]] = {
    "kill -9 of a node": (kill, 6),
    "kill -9 of half of the nodes": (kill_half, 1),
    "SIGSTOP past expiry, then SIGCONT": (freeze, 4),
    "SIGSTOP for about a lease": (stutter, 3),
    "database killed and restarted": (crash_database, 2),
    "disk full on a node": (fill_disk, 2),
}
"""The faults by name, and how often each comes compared with the others."""


def faults(source: random.Random) -> Iterator[str]:
    """Without end: each once, and then as often as each should come."""
    names = list(FAULTS)
    yield from source.sample(names, len(names))
    while True:
        yield source.choices(names, [FAULTS[name][1] for name in names])[0]


async def flood(stage: Stage, count: int) -> float:
    """So many nodes join at one moment, and leave, half of them by kill -9; the seconds until all were in."""
    crowd = [stage.enter(f"crowd-{at}", "--idle") for at in range(count)]
    for agent in crowd:
        await agent.wait_for(lambda line: line["event"] == "ready")
    began = time.monotonic()
    for agent in crowd:
        agent.let_go_on()
    for agent in crowd:
        await agent.wait_for(lambda line: line["event"] == "joined")
    took = time.monotonic() - began
    ways = (signal.SIGTERM, signal.SIGKILL)
    await asyncio.gather(*(stage.leave(agent, ways[at % 2]) for at, agent in enumerate(crowd)))
    return took


async def _frozen(agents: list[Agent], seconds: float) -> None:
    for agent in agents:
        agent.send(signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        for agent in agents:
            agent.send(signal.SIGCONT)
