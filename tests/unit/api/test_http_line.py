"""An executor that reaches a node, and not its store."""

import concurrent.futures
import os
import sys
import time
from pathlib import Path

import cloudpickle
import pytest

import tidemill
from tidemill.api.asking import ask
from tidemill.api.client import Client
from tidemill.api.http_line import BATCH, BATCH_BYTES, _batches
from tidemill.app.tokens import Role, create_token
from tidemill.store import BadRequest, Store
from tidemill.tasks.errors import BadTask, NoSuchQueue, NoSuchTask
from tidemill.tasks.queue import Queue, create_queue
from upnode import UpNode, upnode

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # nodes do not have the tests


def run_on() -> None:
    tidemill.current().reporter.report(1.0, "running on")
    time.sleep(600)


@pytest.fixture
def through(client: Client, node: UpNode) -> Client:
    """A client of the node; that of the store has made the queue."""
    return tidemill.connect(node.address)


def test_functions_go_and_outcomes_come(through: Client) -> None:
    large = os.urandom(1_000_000)
    with through:
        assert through.submit(pow, 2, 10).result(60) == 1024
        assert through.submit(lambda content: content[::-1], large).result(60) == large[::-1]
        assert list(through.map(lambda n: -n, range(500))) == [-n for n in range(500)]
        with pytest.raises(ZeroDivisionError):
            through.submit(lambda: 1 / 0).result(60)


def test_tasks_are_found_followed_and_cancelled(through: Client, client: Client) -> None:
    with through:
        done = client.submit(pow, 3, 3)
        running = through.submit(run_on)
        while (progress := running.progress()) is None:
            time.sleep(0.01)
        running.cancel()

        assert through.future(done.id).result(60) == 27
        assert progress.info == "running on"
        with pytest.raises(concurrent.futures.CancelledError):
            running.result(60)
        with pytest.raises(NoSuchTask):
            through.future("nobody").result(60)


def test_what_needs_the_store_says_so(through: Client) -> None:
    with through:
        future = through.submit(lambda: tidemill.current().context)
        with pytest.raises(BadTask, match="address of a store"):
            future.on_failure_or_timeout(print)
        for use in (through.idle_nodes, through.nodes, through.context):
            with pytest.raises(BadTask, match="address of the cluster's store"):
                use()
        with pytest.raises(RuntimeError, match="did not name a store"):
            future.result(60)


def test_a_queue_is_made_when_it_is_first_used_by_those_who_may(node: UpNode) -> None:
    with tidemill.Executor(node.address, queue="made") as executor:
        assert executor.submit(pow, 2, 5).result(60) == 32


def test_calls_are_sent_in_pieces_that_a_node_takes() -> None:
    small, large = [b"x"] * (BATCH + 1), [b"x" * (BATCH_BYTES // 2 + 1)] * 2

    assert [len(batch) for batch in _batches(small)] == [BATCH, 1]
    assert [len(batch) for batch in _batches([b"", *large, b""])] == [2, 2]
    assert list(_batches([])) == []


def test_only_those_with_the_role_may_send_functions(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"

    async def tokens(store: Store) -> list[str]:
        return [(await create_token(store, str(role), [role]))[1] for role in (Role.FUNCTION, Role.OPERATOR)]

    async def make(store: Store) -> list[str]:
        await create_queue(store, Queue(name="functions", kind="function"))
        return await tokens(store)

    function, operator = ask(url, make)
    with upnode(url, tmp_path, "vm-1") as node:
        with tidemill.Executor(node.address, token=function) as executor:
            assert executor.submit(pow, 2, 3).result(60) == 8
        with tidemill.Executor(node.address, queue="nowhere", token=function) as executor:
            with pytest.raises(NoSuchQueue):
                executor.submit(print)
        with tidemill.Executor(node.address.replace("//", f"//{function}@")) as executor:
            assert executor.submit(pow, 2, 3).result(60) == 8
        for token in (operator, None, "tdm_wrong"):
            with pytest.raises(BadRequest, match=r"refused with 40[13]"):
                tidemill.Executor(node.address, token=token)
