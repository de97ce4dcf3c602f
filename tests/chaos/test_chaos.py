"""The whole of it on real processes: a clean cluster is found clean, and one that cheats is found out."""

import asyncio
import random
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chaos import checks, recorder
from chaos.run import prepare
from chaos.stage import Agent, SqliteFile, Stage
from crash.stopping import stop

pytestmark = pytest.mark.crash


def leads(line: Mapping[str, Any]) -> bool:
    return bool(line["event"] == "held" and line["what"] == ["leases", "leader"])


async def first_leader(agents: list[Agent]) -> Agent:
    waiting = {asyncio.create_task(agent.wait_for(leads)): agent for agent in agents}
    done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    return waiting[done.pop()]


@pytest.mark.parametrize("flag", ["--careless", "--blind"])
async def test_a_leader_that_writes_after_its_time_is_refused_or_else_found_out(
    flag: str, tmp_path: Path
) -> None:
    database = SqliteFile(tmp_path)
    await prepare(database.url)
    stage = Stage(database, tmp_path, random.Random(1))
    try:
        agents = [stage.enter(f"node-{at}", flag) for at in range(2)]
        leader = await first_leader(agents)
        [other] = [agent for agent in agents if agent is not leader]
        stop(leader.pid, database.url)
        await other.wait_for(leads)
        since = len(leader.said)
        leader.send(signal.SIGCONT)
        await leader.wait_for(lambda line: line["event"] in ("wrote", "refused"), since)
        await asyncio.gather(*(stage.leave(agent) for agent in agents))
    finally:
        await stage.close()
    changes = recorder.read(database.url)
    stale = list(checks.no_stale_write(changes))

    assert not stage.bad_ends()
    assert not list(checks.one_holder_at_a_time(changes))
    assert not list(checks.nothing_acknowledged_is_lost(changes, stage.said()))
    assert bool(stale) == (flag == "--blind")
