"""A node started by `tidemill up`, for tests that are synchronous as the code of its users is."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ADDRESS = re.compile(r"^Tidemill\s+(\S+)$")


class UpNode:
    """A running node."""

    def __init__(self, process: "subprocess.Popen[str]", name: str, address: str) -> None:
        self.process = process
        self.name = name
        self.address = address

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.process.wait()


@contextmanager
def upnode(store: str, folder: Path, name: str, *flags: str) -> Iterator[UpNode]:
    """A node with two slots; killed at the end.

    Its leases are so long that it does not lose them on a machine that has much else to do. Where a test
    waits until they have run out, it names shorter ones.
    """
    command = [sys.executable, "-m", "tidemill", "up", "--store", store, "--data", str(folder / name)]
    command += ["--name", name, "--port", "0", "--ttl-s", "10", "--slots", "2", *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield UpNode(process, name, _address(process))
        finally:
            process.kill()


def _address(process: "subprocess.Popen[str]") -> str:
    """Where it listens, once it does. What it says later is read and forgotten."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if found := _ADDRESS.match(line.rstrip()):
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return found[1]
    raise AssertionError(f"the node did not start: {''.join(said)}")
