"""A node's start and end, in this process."""

import asyncio
import os
import signal
from pathlib import Path

import apsw
import pytest

from tidemill.app import node
from tidemill.app.node import Node, run_node
from tidemill.app.settings import Settings
from tidemill.store import Locked, Store, open_store


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
