"""Tasks over HTTP and on the command line, run by a real node."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from e2e.nodes import NodeProcess, nodes, until

WORDS = Path(__file__).parents[2] / "examples" / "plugins" / "word_count.pl"
WAITS = "echo begun; while [ ! -e $0 ]; do sleep 0.05; done; echo over"


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[tuple[NodeProcess, httpx2.AsyncClient]]:
    """A node that counts words, and waits for the file `go`; with a queue for each."""
    plugins = {"words": ["perl", str(WORDS)], "waits": ["sh", "-c", WAITS, str(folder / "go")]}
    flags = ["--plugins", json.dumps(plugins), "--slots", "2"]
    async with nodes(f"sqlite:///{folder}/store.db", folder, 1, *flags) as [node]:
        async with httpx2.AsyncClient(base_url=f"{node.address}/api/v1", timeout=60) as client:
            for name in plugins:
                made = await client.post("/queues", json={"name": name, "plugin": name})
                assert made.status_code == 201, made.text
            yield node, client


async def ended(client: httpx2.AsyncClient, task: str) -> dict[str, Any]:
    """The task once it has ended."""
    seen: dict[str, Any] = {}

    async def over() -> bool:
        seen.update((await client.get(f"/tasks/{task}")).json())
        return seen["ended"] is not None

    await until(over)
    return seen


async def test_a_program_is_run_and_its_result_and_output_are_had(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        text = {"text": "to be\nor not to be"}
        good = (await client.post("/tasks", json={"queue": "words", "params": text})).json()["id"]
        bad = (await client.post("/tasks", json={"queue": "words"})).json()["id"]
        succeeded, failed = await ended(client, good), await ended(client, bad)
        result = (await client.get(f"/tasks/{good}/result")).json()
        counts = (await client.get("/queues/words")).json()

    assert (succeeded["state"], succeeded["stdout"], result) == ("succeeded", "2\n4\n", {"words": 6})
    assert (failed["state"], failed["stderr"], failed["exit_code"]) == (
        "failed",
        "params.text is missing\n",
        1,
    )
    assert (counts["queued"], counts["running"], counts["completed"]) == (0, 0, 2)


async def test_output_is_followed_while_it_is_written_and_a_task_that_runs_is_cancelled(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as (_, client):
        first = (await client.post("/tasks", json={"queue": "waits"})).json()["id"]
        async with client.stream("GET", f"/tasks/{first}/logs?follow") as answer:
            text = answer.aiter_text()
            begun = await anext(text)
            (tmp_path / "go").touch()
            rest = "".join([part async for part in text])
        (tmp_path / "go").unlink()
        second = (await client.post("/tasks", json={"queue": "waits"})).json()["id"]
        async with client.stream("GET", f"/tasks/{second}/logs?follow") as answer:
            assert await anext(answer.aiter_text()) == "begun\n"
        await client.post(f"/tasks/{second}/cancel")
        cancelled = await ended(client, second)

    assert (begun, rest) == ("begun\n", "over\n")
    assert (cancelled["state"], cancelled["stdout"]) == ("cancelled", "begun\n")


async def test_the_command_line_submits_to_a_node_that_runs(tmp_path: Path) -> None:
    async with cluster(tmp_path):
        store = ["--store", f"sqlite:///{tmp_path}/store.db"]
        params = ["--params", '{"text": "a b c"}', "--count", "3", "--wait", "--json"]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tidemill", "task", "submit", "words", *params, *store),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()

    assert process.returncode == 0
    assert [task["result"] for task in json.loads(out)] == [{"words": 3}] * 3


async def test_a_node_that_was_drained_takes_tasks_again(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        await client.post("/nodes/n0/drain")
        task = (await client.post("/tasks", json={"queue": "words", "params": {"text": "a"}})).json()["id"]
        drained = (await client.get("/nodes/n0")).json()
        await client.post("/nodes/n0/undrain")
        seen = await ended(client, task)

    assert (drained["draining"], seen["state"], seen["node"]) == (True, "succeeded", "n0")
