"""One long-running input per idle node; one node is killed, and its input goes on elsewhere where it stood.

python examples/05_kafka_inputs.py

Two files stand in for the partitions of a topic: they are appended to, read from an offset on, and the offset
is committed together with what was made of the records. It starts three nodes on an SQLite store of its own,
and ends by itself.
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import tidemill
from tidemill.api.client import NodeHandle

PARTITIONS = 2
RECORDS = 60
NODES = ("ada", "bob", "eve")


def poll(topic: Path, partition: int, offset: int) -> list[int]:
    """What a consumer is given: the next few records from an offset on."""
    lines = (topic / str(partition)).read_text().splitlines()
    return [int(line) for line in lines[offset : offset + 5]]


def produce(topic: Path) -> None:
    for record in range(RECORDS):
        for partition in range(PARTITIONS):
            with (topic / str(partition)).open("a") as file:
                file.write(f"{record}\n")
        time.sleep(0.05)


def run_input(context: tidemill.SharedContext, topic: Path, partition: int) -> None:
    """Runs on a node for as long as there is anything to come.

    Offset and sum are committed in one act, which carries the task's fence: a node that has lost the input
    without knowing can commit nothing, so that each record counts once.
    """
    task, name = tidemill.current(), str(partition)

    def commit(state: dict[str, Any], records: list[int]) -> None:
        done = state["inputs"][name]
        state["inputs"][name] = {"offset": done["offset"] + len(records), "sum": done["sum"] + sum(records)}

    with context:
        start = context["inputs"][name]["offset"]
        context.update(lambda state: {**state, "told": [*state["told"], [task.node, partition, start]]})
        while (offset := context["inputs"][name]["offset"]) < RECORDS:
            if records := poll(topic, partition, offset):
                context.update(partial(commit, records=records))
                task.reporter.report(100 * offset / RECORDS, f"offset {offset}")
            time.sleep(0.05)


def give_up(context: tidemill.SharedContext, node: NodeHandle, partition: int) -> None:
    """Runs here or, should this process be gone, on the node that leads."""
    print(f"{node.name} is given up, partition {partition} is free again", flush=True)
    node.mark_dead()
    context.update(lambda state: {**state, "free": [*state["free"], partition]})


def take(context: tidemill.SharedContext) -> int | None:
    """A partition that no node has, or None."""
    taken: list[int] = []

    def first(state: dict[str, Any]) -> None:
        taken[:] = state["free"][:1]
        state["free"] = state["free"][1:]

    context.update(first)
    return taken[0] if taken else None


def finished(context: tidemill.SharedContext) -> bool:
    return all(done["offset"] == RECORDS for done in context["inputs"].values())


def lead(cluster: tidemill.Client, topic: Path, victim: subprocess.Popen[bytes]) -> None:
    context = cluster.context("topic")  # holds short-lived state and can be sent along
    inputs = {str(partition): {"offset": 0, "sum": 0} for partition in range(PARTITIONS)}
    context.update(lambda _: {"free": list(range(PARTITIONS)), "inputs": inputs, "told": []})
    while not finished(context):
        for node in cluster.idle_nodes(timeout_s=1.0):
            if (partition := take(context)) is None:
                break
            future = node.submit(run_input, context, topic, partition)
            future.on_failure_or_timeout(partial(give_up, context, node, partition))
        if victim.poll() is None and context["inputs"]["0"]["offset"] > RECORDS // 4:
            print(f"{NODES[0]} is killed", flush=True)
            victim.kill()
        time.sleep(0.05)


@contextmanager
def running_node(store: str, folder: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A node, in a process of its own, once it listens."""
    said = folder / f"{name}.log"
    command = [sys.executable, "-m", "tidemill", "up", "--store", store, "--data", str(folder / name)]
    command += ["--name", name, "--port", "0", "--slots", "1", "--ttl-s", "2"]
    with said.open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        while not re.search(r"^Tidemill\s", said.read_text(), re.MULTILINE):
            if process.poll() is not None:
                sys.exit(said.read_text())
            time.sleep(0.05)
        try:
            yield process
        finally:
            process.kill()


def main() -> int:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, ExitStack() as stack:
        folder = Path(place)
        topic = folder / "topic"
        topic.mkdir()
        for partition in range(PARTITIONS):
            (topic / str(partition)).touch()
        store = f"sqlite:///{folder}/store.db"
        nodes = [stack.enter_context(running_node(store, folder, name)) for name in NODES]
        threading.Thread(target=produce, args=(topic,), daemon=True).start()
        with tidemill.connect(store) as cluster:
            lead(cluster, topic, nodes[0])
            state = cluster.context("topic").copy()
        for node, partition, offset in state["told"]:
            print(f"{node} has partition {partition} from offset {offset} on")
        sums = [done["sum"] for done in state["inputs"].values()]
        print(f"sums are {sums}, and should be {sum(range(RECORDS))} each")
        taken_over = len(state["told"]) > PARTITIONS
        return os.EX_OK if taken_over and sums == [sum(range(RECORDS))] * PARTITIONS else os.EX_SOFTWARE


if __name__ == "__main__":
    sys.exit(main())
