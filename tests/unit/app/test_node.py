"""A node's start and end, in this process."""

import asyncio
import os
import signal
import socket
from pathlib import Path

import apsw
import pytest

from tidemill.app import node
from tidemill.app.node import Node, listening, run_node
from tidemill.app.settings import Settings
from tidemill.cluster import list_nodes
from tidemill.store import Locked, Store, open_store
from tidemill.tasks.queue import Queue, create_queue


def impatient(url: str) -> Store:
    return open_store(url, timeout_s=0.2)


async def test_a_node_waits_for_a_store_that_others_keep_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = asyncio.Event()
    attempts = 0

    def counted(url: str) -> Store:
        nonlocal attempts
        attempts += 1
        if attempts > 1:
            refused.set()
        return impatient(url)

    monkeypatch.setattr(node, "open_store", counted)
    path = tmp_path / "store.db"
    async with open_store(f"sqlite:///{path}"):
        pass
    greedy = apsw.Connection(str(path))
    greedy.execute("BEGIN IMMEDIATE")
    ready: asyncio.Future[Node] = asyncio.get_running_loop().create_future()
    settings = Settings(data=tmp_path, store=f"sqlite:///{path}", port=0, name="patient")
    running = asyncio.create_task(run_node(settings, ready.set_result))
    await refused.wait()
    greedy.execute("COMMIT")
    joined = await ready
    os.kill(os.getpid(), signal.SIGTERM)
    await running

    assert joined.name == "patient"


async def test_a_node_gives_up_on_a_store_that_stays_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "open_store", impatient)
    monkeypatch.setattr(node, "START_S", 0.0)
    path = tmp_path / "store.db"
    async with open_store(f"sqlite:///{path}"):
        pass
    greedy = apsw.Connection(str(path))
    greedy.execute("BEGIN IMMEDIATE")
    with pytest.raises(Locked, match="locked by another process"):
        await run_node(Settings(data=tmp_path, store=f"sqlite:///{path}", port=0))


def test_answers_are_sent_at_once_and_not_after_the_callers_delayed_receipt() -> None:
    # asyncio turns Nagle's algorithm off only for sockets that are named as TCP.
    with listening(Settings(port=0)) as listener:
        assert listener.proto == socket.IPPROTO_TCP


async def test_a_node_says_which_plugins_it_cannot_run_and_leaves_their_queues_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    plugins = {"json:no_such_function": (), "nowhere": ("/no/such/program",), "shell": ("sh", "-c", "true")}
    settings = Settings(data=tmp_path, store=url, port=0, name="vm-1", plugins=plugins)
    async with open_store(url) as store:
        for name in plugins:
            queue = Queue(name=name.partition(":")[0], kind="plugin", plugin=name)
            await create_queue(store, queue)
        ready: asyncio.Future[Node] = asyncio.get_running_loop().create_future()
        running = asyncio.create_task(run_node(settings, ready.set_result))
        execution = (await ready).tasking.execution
        while not execution.unknown:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
        [entry] = await list_nodes(store)
        os.kill(os.getpid(), signal.SIGTERM)
        await running

    assert execution.unknown == {"json", "nowhere"}
    assert entry.plugins == ("shell",)
    assert entry.broken == {
        "json:no_such_function": "plugin 'json:no_such_function': it cannot be loaded: "
        "AttributeError: module 'json' has no attribute 'no_such_function'",
        "nowhere": "plugin 'nowhere': there is no program '/no/such/program' that this node may run",
    }
