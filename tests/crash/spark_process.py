"""Drivers of Spark and a cluster of it, from the side of the test."""

import json
import os
import re
import subprocess
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, Self

import psutil
import pyspark

from crash.processes import TESTS
from tidemill.pipeline.runtimes.java import Java

SPARK = Path(pyspark.__file__).parent


def environment(java: Java) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(TESTS),
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def end(process: psutil.Popen, started: set[psutil.Process], wait_s: float) -> None:
    """Give a process so long to end, then kill it and all that it started."""
    with suppress(psutil.NoSuchProcess):
        started.update(process.children(recursive=True))
    with suppress(psutil.TimeoutExpired):
        process.wait(wait_s)
    for one in (process, *started):
        with suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()


class Driver:
    """A driver process. All that it started is gone after the `with` block."""

    def __init__(
        self, folder: Path, java: Java, master: str = "local[2]", module: str = "crash.spark_child"
    ) -> None:
        self.folder = folder
        if not (folder / "hangs").exists():
            os.mkfifo(folder / "hangs")
        self.process = psutil.Popen(
            [sys.executable, "-m", module, master, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(java),
        )
        self._all: set[psutil.Process] = set()

    def ask(self, question: str) -> Any:
        """What a method of the driver returned."""
        answer = self.answer(question)
        assert "value" in answer, answer
        return answer["value"]

    def answer(self, question: str = "") -> dict[str, Any]:
        """The whole answer, be it an error; without a question, to the one that was begun."""
        if question:
            self.begin(question)
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def begin(self, question: str) -> None:
        self.process.stdin.write(f"{question}\n".encode())
        self.process.stdin.flush()

    def caught(self) -> psutil.Process:
        """Wait until the step that was begun hangs; the Python worker that does."""
        worker = psutil.Process(int((self.folder / "hangs").read_text()))
        self._all.update(self.process.children(recursive=True))
        return worker

    def __enter__(self) -> Self:
        assert json.loads(self.process.stdout.readline()) == {"ready": True}
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        end(self.process, self._all, 30)
        self.process.stdout.close()


class Cluster:
    """A standalone cluster of Spark on loopback, with two workers of one core each."""

    def __init__(self, folder: Path, java: Java) -> None:
        self._java = java
        self._running: list[psutil.Popen] = []
        self._readers: list[Thread] = []
        self.master = self._start("master.Master", r"spark://127\.0\.0\.1:\d+")
        for _ in range(2):
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"))
            self._start("worker.Worker", "Successfully registered", *size, self.master)

    def _start(self, what: str, ready: str, *arguments: str) -> str:
        """Start a part of the cluster and wait until it says that it is ready; what it said."""
        address = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        process = psutil.Popen(
            [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *address, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(self._java),
        )
        self._running.append(process)
        for line in process.stderr:
            if found := re.search(ready, line.decode()):
                # The rest is read as well, or it would wait for a reader.
                self._readers.append(Thread(target=deque, args=(process.stderr, 0)))
                self._readers[-1].start()
                return found[0]
        raise RuntimeError(f"{what} of Spark ended with {process.wait()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            end(process, set(), 0)
        for reader in self._readers:
            reader.join()
        for process in self._running:
            process.stderr.close()
