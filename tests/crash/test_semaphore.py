"""Holders of slots are killed, or stopped and continued; others get the slots, stale writes are refused."""

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


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


async def check_history(url: str, running: list[Agent]) -> None:
    """In each slot terms only grow and each belongs to one agent; and what was acknowledged is there."""
    async with open_store(url) as store:
        history = (await store.find(ENTRIES, sort=["revision"], limit=10_000)).documents
    slots = {entry.body["slot"] for entry in history}
    owners = {(entry.body["term"], entry.body["by"]) for entry in history}
    acknowledged = sum(len(agent.lines("wrote")) for agent in running)

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


async def test_a_stopped_holders_slot_goes_to_the_one_who_waits_and_a_killed_ones_back_to_it(
    store_url: str,
) -> None:
    async with agents(store_url, "--ttl", "2", module=MODULE) as running:
        holder, waits = await both_slots_held(running)
        had = holder.lines("in")[0]
        assert waits.lines("in") == []
        stop(holder.send, store_url)
        got = await waits.wait_for(event("wrote"))
        holder.send(signal.SIGCONT)
        refused = await holder.wait_for(event("fenced"))
        await waits.kill()
        again = await holder.wait_for(event("in", above=had["term"]))

        assert got["slot"] == refused["slot"] == again["slot"] == had["slot"]
        assert refused["term"] == had["term"] < got["term"] < again["term"]
        await check_history(store_url, running)
