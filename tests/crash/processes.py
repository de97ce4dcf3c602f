"""Agents as child processes, and what they said."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Self

TESTS = Path(__file__).parent.parent


class Agent:
    """One agent process; `said` grows as it speaks."""

    def __init__(self, store: str, name: str, *flags: str, module: str = "crash.agent") -> None:
        self.name = name
        self.said: list[dict[str, Any]] = []
        self._command = [sys.executable, "-m", module, store, name, *flags]
        self._heard = asyncio.Condition()
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None

    async def start(self) -> Self:
        environment = {**os.environ, "PYTHONPATH": str(TESTS)}
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdout=asyncio.subprocess.PIPE, env=environment
        )
        self._listening = asyncio.create_task(self._listen())
        return self

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        """End it at once, with nothing said."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        assert self._listening is not None
        await self._listening

    async def wait_for(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first thing it said, or will say, that is wanted."""
        seen = 0
        async with self._heard:
            while True:
                for line in self.said[seen:]:
                    if wanted(line):
                        return line
                seen = len(self.said)
                await self._heard.wait()

    def lines(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.said if line["event"] == event]

    async def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            async with self._heard:
                self.said.append(json.loads(line))
                self._heard.notify_all()


def event(name: str, above: int = 0) -> Callable[[dict[str, Any]], bool]:
    """Something of that name, under a term above."""
    return lambda line: line["event"] == name and line.get("term", above + 1) > above


@contextlib.asynccontextmanager
async def agents(
    store: str, *flags: str, count: int = 3, module: str = "crash.agent"
) -> AsyncIterator[list[Agent]]:
    """That many agents on one store, all joined; killed at the end."""
    running = [Agent(store, f"n{at}", *flags, module=module) for at in range(count)]
    try:
        for agent in running:
            await agent.start()
        for agent in running:
            await agent.wait_for(event("joined"))
        yield running
    finally:
        for agent in running:
            await agent.kill()


async def first_to(running: list[Agent], name: str, above: int = 0) -> tuple[Agent, dict[str, Any]]:
    """Which of the agents is the first to say that, and what it said."""

    async def one(agent: Agent) -> tuple[Agent, dict[str, Any]]:
        return agent, await agent.wait_for(event(name, above))

    tasks = [asyncio.create_task(one(agent)) for agent in running]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    return min((task.result() for task in done), key=lambda found: float(found[1]["at"]))
