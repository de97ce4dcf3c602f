"""What an idle node costs: store calls a second and share of one core.

python benchmarks/idle.py [--seconds 30] [--nodes 1 10 100]

Real nodes (`tidemill up`), left alone but for two looks at their metrics, which ask the store themselves. The
bar: at most one call a second and under 1 % of a core each.
"""

import argparse
import contextlib
import itertools
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import httpx2
import psutil

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from servers import PostgresServer

COUNTERS = ("tidemill_store_calls_total", "tidemill_heart_store_calls_total")
SETTLE_S = 8.0
SETTLE_EACH_S = 0.3


@dataclass(frozen=True)
class Sample:
    """What a node has cost up to a moment; the difference of two is what it cost in between."""

    at: float
    calls: float
    cpu_s: float

    def __sub__(self, before: "Sample") -> "Sample":
        return Sample(self.at - before.at, self.calls - before.calls, self.cpu_s - before.cpu_s)


class IdleNode:
    """A node process, and what it has cost so far."""

    def __init__(self, url: str, folder: str, port: int) -> None:
        command = ["up", "--store", url, "--data", folder, "--port", str(port), "--name", f"n{port}"]
        self._address = f"http://127.0.0.1:{port}"
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the node
        self._process = subprocess.Popen([sys.executable, "-m", "tidemill", *command], stderr=self._said)

    def wait_ready(self) -> None:
        ready = False
        while not ready:
            if self._process.poll() is not None:
                self._said.seek(0)
                raise RuntimeError(f"the node at {self._address} ended by itself:\n{self._said.read()}")
            with contextlib.suppress(httpx2.TransportError):
                ready = httpx2.get(self._address + "/readyz").is_success
            time.sleep(0.2)

    def sample(self) -> Sample:
        return Sample(time.monotonic(), self.calls(), self.cpu_s())

    def calls(self) -> float:
        lines = httpx2.get(self._address + "/metrics").text.splitlines()
        return sum(float(line.split()[1]) for line in lines if line.startswith(COUNTERS))

    def leads(self) -> bool:
        view = httpx2.get(self._address + "/api/v1/cluster").json()
        return bool(view["leader"] == view["node"])

    def cpu_s(self) -> float:
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def free_ports() -> Iterator[int]:
    """Ports below those that the system hands out, of which a hundred nodes and their callers use many."""
    for port in range(21_000, 32_000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            yield port


def measure(name: str, url: str, count: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        nodes = [IdleNode(url, folder, port) for port in itertools.islice(free_ports(), count)]
        for node in nodes:
            stack.callback(node.stop)
        for node in nodes:
            node.wait_ready()
        time.sleep(SETTLE_S + SETTLE_EACH_S * count)
        roles = ["leader" if node.leads() else "follower" for node in nodes]
        before = [node.sample() for node in nodes]
        time.sleep(seconds)
        spent = [node.sample() - then for node, then in zip(nodes, before, strict=True)]
        rates = [each.calls / each.at for each in spent]
        shares = [100 * each.cpu_s / each.at for each in spent]
        for role in ("leader", "follower"):
            of_role = [at for at in range(count) if roles[at] == role]
            if of_role:
                print(
                    f"{name}, {len(of_role)} {role} of {count} nodes: "
                    f"{mean(rates[at] for at in of_role):.2f} calls/s "
                    f"(at most {max(rates[at] for at in of_role):.2f}), "
                    f"{mean(shares[at] for at in of_role):.2f} % of a core each",
                    flush=True,
                )


@contextlib.contextmanager
def databases() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:
        yield {"sqlite": f"sqlite:///{folder}/store.db", "postgres": server.create_database("idle")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--nodes", type=int, nargs="+", default=[3])
    chosen = parser.parse_args()
    for count in chosen.nodes:
        with databases() as urls:
            for name, url in urls.items():
                measure(name, url, count, chosen.seconds)


if __name__ == "__main__":
    main()
