"""The leader of a piece of work hands files to idle nodes; one node is killed at work, and no file is lost.

python examples/04_s3_files.py

A folder stands in for the bucket. It starts three nodes on an SQLite store of its own, and ends by itself.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import tidemill
from tidemill.api.client import NodeHandle
from tidemill.api.executor import TaskFuture

FILES = 12
NODES = ("ada", "bob", "eve")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def outstanding_files(context: tidemill.SharedContext, most: int) -> list[str]:
    """Block until there are files to be done, and take some. None are left once all are done."""
    taken: list[str] = []

    def take(state: dict[str, list[str]]) -> None:
        taken[:] = state["outstanding"][:most]
        state["outstanding"] = state["outstanding"][most:]

    while not taken and len(context["done"]) < FILES:
        context.update(take)
        time.sleep(0.05)
    return taken


def download(context: tidemill.SharedContext, bucket: Path, target: Path, file: str) -> None:
    """Runs on a node. It may be run twice when a node is lost, so the file is put in place in one act."""
    task = tidemill.current()
    print(f"{task.node} downloads {file}")
    for step in range(10):
        task.reporter.report(10.0 * step, file)
        time.sleep(0.05)
    draft = target / f"{file}.{task.fence}"
    shutil.copy(bucket / file, draft)
    draft.replace(target / file)
    # Carries the task's fence: when the node has lost the task meanwhile, this is refused.
    context.update(lambda state: {**state, "done": sorted({*state["done"], file})})


def give_up(context: tidemill.SharedContext, node: NodeHandle, file: str) -> None:
    """Runs here or, should this process be gone, on the node that leads. Both facts persist in the store."""
    print(f"{node.name} is given up, {file} goes back", flush=True)
    node.mark_dead()
    context.update(lambda state: {**state, "outstanding": [*state["outstanding"], file]})


def lead(cluster: tidemill.Client, bucket: Path, target: Path, victim: subprocess.Popen[bytes]) -> None:
    context = cluster.context("files")  # holds short-lived state and can be sent along
    context.update(lambda _: {"outstanding": names(bucket), "done": []})
    while True:
        nodes = cluster.idle_nodes()  # blocks until a node becomes available
        files = outstanding_files(context, len(nodes))
        if not files:
            return
        for node, file in zip(nodes, files, strict=False):
            future = node.submit(download, context, bucket, target, file)
            future.on_failure_or_timeout(partial(give_up, context, node, file), timeout_s=20)
            if node.name == NODES[0] and len(context["done"]) >= 3:
                kill_at_work(victim, future)


def kill_at_work(victim: subprocess.Popen[bytes], future: TaskFuture[None]) -> None:
    while future.progress() is None and not future.done():
        time.sleep(0.01)
    print(f"{NODES[0]} is killed", flush=True)
    victim.kill()


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
        bucket, target = folder / "bucket", folder / "target"
        bucket.mkdir()
        target.mkdir()
        for at in range(FILES):
            (bucket / f"{at:02d}.csv").write_text("some,columns\n" * 100)
        store = f"sqlite:///{folder}/store.db"
        nodes = [stack.enter_context(running_node(store, folder, name)) for name in NODES]
        with tidemill.connect(store) as cluster:
            lead(cluster, bucket, target, nodes[0])
            done = cluster.context("files")["done"]
        print(f"{len(done)} of {FILES} files are downloaded")
        complete = done == names(bucket) and set(done) <= set(names(target))
        return os.EX_OK if complete else os.EX_SOFTWARE


if __name__ == "__main__":
    sys.exit(main())
