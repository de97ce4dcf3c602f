"""Holders of slots are killed, or stopped and continued; others get the slots, stale writes are refused."""

import asyncio
import signal
from pathlib import Path

import pytest

from crash.agent import ENTRIES
from crash.processes import Agent, agents, event, first_to
from crash.stopping import stop
from tidemill.store import open_store

pytestmark = pytest.mark.crash

MODULE = "crash.semaphore_agent"
SLOTS = 2


async def check_history(url: str, running: list[Agent]) -> None:
    """In each slot terms only grow and each belongs to one agent; and what was acknowledged is there."""
    # Counted first, as they go on writing.
    acknowledged = sum(len(agent.lines("wrote")) for agent in running)
    async with open_store(url) as store:
        history = (await store.find(ENTRIES, sort=["revision"], limit=10_000)).documents
    slots = {entry.body["slot"] for entry in history}
    owners = {(entry.body["term"], entry.body["by"]) for entry in history}

    assert len(slots) == SLOTS
    for slot in slots:
        terms = [entry.body["term"] for entry in history if entry.body["slot"] == slot]
        assert terms == sorted(terms)
    assert len({term for term, _ in owners}) == len(owners)
    assert len(history) >= acknowledged > 0


async def both_slots_held(running: list[Agent]) -> tuple[Agent, Agent]:
    """One of the two who are in, and the one who waits."""
    first, _ = await first_to(running, "in")
    second, _ = await first_to([agent for agent in running if agent is not first], "in")
    [waits] = [agent for agent in running if agent not in (first, second)]
    return first, waits


async def hand_over(url: str) -> None:
    """A holder is stopped, the one who waits gets its slot and is killed, and the first gets it back."""
    async with agents(url, "--ttl", "5", module=MODULE) as running:
        holder, waits = await both_slots_held(running)
        had = holder.lines("in")[0]
        assert waits.lines("in") == []
        stop(holder.pid, url)
        got = await waits.wait_for(event("wrote"))
        holder.send(signal.SIGCONT)
        refused = await holder.wait_for(event("fenced"))
        await waits.kill()
        again = await holder.wait_for(event("in", above=had["term"]))

        assert got["slot"] == refused["slot"] == again["slot"] == had["slot"]
        assert refused["term"] == had["term"] < got["term"] < again["term"]
        await check_history(url, running)


async def test_the_slot_of_a_stopped_and_of_a_killed_holder_goes_to_the_one_who_waits(
    tmp_path: Path, postgres_url: str
) -> None:
    """On both at once, as most of it is waiting for leases to run out."""
    async with asyncio.TaskGroup() as both:
        for url in (f"sqlite:///{tmp_path}/store.db", postgres_url):
            both.create_task(hand_over(url))
