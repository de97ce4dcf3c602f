"""A cluster of two nodes as the code sees it that leads a piece of work."""

import concurrent.futures
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import tidemill
from tidemill.api.asking import ask
from tidemill.api.client import Client, NodeHandle
from tidemill.store import Store
from tidemill.tasks.errors import BadTask, NodeGone
from tidemill.tasks.handlers import HANDLERS
from tidemill.tasks.limits import TAKING_TASKS, change_limits
from upnode import UpNode, upnode

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # nodes do not have the tests


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Client]:
    url = f"sqlite:///{folder}/store.db"
    with upnode(url, folder, "vm-1"), upnode(url, folder, "vm-2"), tidemill.connect(url) as connected:
        until(lambda: len(connected.idle_nodes()) == 2)
        yield connected


@pytest.fixture
def doomed(cluster: Client, folder: Path) -> Iterator[UpNode]:
    """A node of the test's own, to mark and to kill."""
    with upnode(cluster.url, folder, "vm-3", "--ttl-s", "2") as node:
        until(lambda: "vm-3" in idle(cluster))
        yield node
    until(lambda: not is_alive(cluster, "vm-3"))  # else the next of that name would have to take another


def idle(cluster: Client) -> list[str]:
    return [node.name for node in cluster.idle_nodes()]


def is_alive(cluster: Client, name: str) -> bool:
    return name in [node.name for node in cluster.nodes() if node.alive]


def until(holds: Callable[[], Any]) -> Any:
    """What it says once it says something; the test's own time limit ends the wait."""
    while not (said := holds()):
        time.sleep(0.01)
    return said


def run_on() -> None:
    tidemill.current().reporter.report(1.0)
    time.sleep(600)


def name() -> str:
    return tidemill.current().node


def node_of(cluster: Client, name: str) -> NodeHandle:
    found: list[NodeHandle] = until(lambda: [node for node in cluster.idle_nodes() if node.name == name])
    return found[0]


def change(cluster: Client, name: str, **changes: Any) -> None:
    """What people set for a node."""

    async def set_(store: Store) -> None:
        await change_limits(store, name, **changes)

    ask(cluster.url, set_)


def handlers_left(cluster: Client) -> int:
    async def count(store: Store) -> int:
        return await store.count(HANDLERS)

    return ask(cluster.url, count)


def test_a_function_runs_on_the_node_it_was_given_to(cluster: Client) -> None:
    found = until(lambda: cluster.idle_nodes() if len(idle(cluster)) == 2 else None)
    futures = [node.submit(name) for node in found for _ in range(3)]

    assert [node.name for node in found] == ["vm-1", "vm-2"]
    assert [future.result(60) for future in futures] == ["vm-1"] * 3 + ["vm-2"] * 3
    assert {node.name for node in cluster.nodes()} == {"vm-1", "vm-2"}


def test_a_busy_node_is_not_idle_until_it_is_done(cluster: Client) -> None:
    node = node_of(cluster, "vm-1")
    futures = [node.submit(run_on) for _ in range(node.slots)]
    others = idle(cluster)
    for future in futures:
        future.cancel()
    concurrent.futures.wait(futures)

    assert others == ["vm-2"]
    assert idle(cluster) == ["vm-1", "vm-2"]


def test_no_node_is_idle_before_there_is_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    tidemill.SharedContext(url, "any").set("made", True)
    with pytest.warns(UserWarning, match="no node"):
        alone = tidemill.connect(url)
    with alone as cluster:
        assert cluster.idle_nodes(wait=False) == []
        assert cluster.idle_nodes(timeout_s=0.05) == []
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(cluster.idle_nodes)
            with upnode(url, tmp_path, "vm-1"):
                assert [node.name for node in waiting.result(60)] == ["vm-1"]


def test_a_node_that_is_marked_dead_takes_nothing_more(cluster: Client, doomed: UpNode) -> None:
    node = node_of(cluster, doomed.name)
    change(cluster, doomed.name, draining=True)
    waiting = node.submit(name)
    arrived: NodeHandle = pickle.loads(pickle.dumps(node))
    arrived.mark_dead()
    change(cluster, doomed.name, draining=False)
    others = idle(cluster)
    where = set(cluster.map(lambda _: name(), range(8)))

    assert others == ["vm-1", "vm-2"]
    assert doomed.name not in where
    with pytest.raises(concurrent.futures.CancelledError):
        waiting.result(60)
    with pytest.raises(NodeGone, match="marked as dead"):
        node.submit(name)


def test_a_mark_is_taken_back_by_people_and_by_the_next_process(
    cluster: Client, doomed: UpNode, folder: Path
) -> None:
    node = node_of(cluster, doomed.name)
    node.mark_dead()
    change(cluster, doomed.name, **TAKING_TASKS)
    taken_back = node.submit(name).result(60)
    node.mark_dead()
    doomed.kill()
    until(lambda: not is_alive(cluster, doomed.name))
    with upnode(cluster.url, folder, doomed.name, "--ttl-s", "2"):
        assert node.submit(name).result(60) == taken_back == doomed.name


def test_a_node_that_is_gone_is_told_at_once(cluster: Client, doomed: UpNode) -> None:
    node = node_of(cluster, doomed.name)
    doomed.kill()
    until(lambda: not is_alive(cluster, doomed.name))

    with pytest.raises(NodeGone, match="'vm-3' is not alive"):
        node.submit(name)


def test_a_draining_node_is_not_idle(cluster: Client) -> None:
    change(cluster, "vm-1", draining=True)
    others = idle(cluster)
    change(cluster, "vm-1", draining=False)

    assert others == ["vm-2"]


def test_what_is_to_be_done_about_a_failure_is_done_here_and_once(cluster: Client) -> None:
    done: list[str] = []
    with tidemill.connect(cluster.url) as other:
        other.submit(lambda: 1 / 0).on_failure_or_timeout(lambda: done.append("failed"))
        other.submit(lambda: 1).on_failure_or_timeout(lambda: done.append("fine"), timeout_s=60)
        cancelled = other.submit(run_on).on_failure_or_timeout(lambda: done.append("cancelled"))
        cancelled.cancel()

    assert sorted(done) == ["cancelled", "failed"]
    assert handlers_left(cluster) == 0


def test_it_is_done_also_when_the_task_has_failed_before(cluster: Client) -> None:
    future = cluster.submit(lambda: 1 / 0)
    future.exception(60)
    told: list[str] = []
    future.on_failure_or_timeout(lambda: told.append("failed"))
    until(lambda: told)

    assert told == ["failed"]


def test_a_task_that_takes_too_long_is_cancelled_first(cluster: Client) -> None:
    done: list[str] = []
    with tidemill.connect(cluster.url) as other:
        future = other.submit(run_on)
        future.on_failure_or_timeout(lambda: done.append("late"), timeout_s=0.3)
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(60)

    assert done == ["late"]


def test_the_loss_of_a_node_is_told_of(cluster: Client, doomed: UpNode) -> None:
    node = node_of(cluster, doomed.name)
    marked: list[str] = []

    def mark() -> None:
        node.mark_dead()
        marked.append(node.name)

    future = node.submit(run_on).on_failure_or_timeout(mark)
    until(future.progress)
    doomed.kill()
    until(lambda: marked)

    assert "vm-3 was lost" in str(future.exception(60))
    assert idle(cluster) == ["vm-1", "vm-2"]


def test_a_task_has_one_handler(cluster: Client) -> None:
    future = cluster.submit(run_on).on_failure_or_timeout(print)

    with pytest.raises(BadTask, match="already"):
        future.on_failure_or_timeout(print)
    with pytest.raises(ValueError, match="timeout_s"):
        cluster.submit(name).on_failure_or_timeout(print, timeout_s=0)
    future.cancel()


SUBMITTER = """if True:
    import os, sys, time, tidemill
    from tidemill.api import handling
    from tidemill.cluster import Timing
    handling.TIMING = Timing(3.0)
    cluster = tidemill.connect(sys.argv[1])
    context = cluster.context("story")

    def run(word):
        while context.get("go") is None:
            time.sleep(0.05)
        if word == "fails":
            raise ValueError(word)

    def handle(word):
        context.update(lambda state: {**state, word: state.get(word, 0) + 1, "on": tidemill.current().queue})

    for word, timeout_s in (("fails", None), ("succeeds", None)):
        cluster.submit(run, word).on_failure_or_timeout(lambda word=word: handle(word), timeout_s)
    os.kill(os.getpid(), 9)
"""


def test_when_the_submitter_is_gone_the_leader_sees_to_it(cluster: Client) -> None:
    died = subprocess.run([sys.executable, "-c", SUBMITTER, cluster.url], check=False)
    context = cluster.context("story")
    context.set("go", True)
    until(lambda: handlers_left(cluster) == 0 and "fails" in context)

    assert died.returncode == -9
    assert context.copy() == {"go": True, "fails": 1, "on": "leader"}
