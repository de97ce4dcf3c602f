"""The anonymous memory of Spark's Python processes, sampled while something runs.

Mapped files are not counted: they are page cache, which the system takes back when it needs to.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

_DAEMONS = ("pyspark.daemon", "tidemill.pipeline.runtimes.daemon")
_PERIOD_S = 0.2


class Footprint:
    """What Spark's Python processes hold: now, and at most in any sample so far."""

    def __init__(self) -> None:
        self._peak = 0

    def figures(self) -> dict[str, int]:
        """Bytes that all of them hold now, and held at most; how many there are."""
        sizes = anonymous()
        self._peak = max(self._peak, sum(sizes))
        return {"processes": len(sizes), "now": sum(sizes), "peak": self._peak}

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Sample meanwhile. A sample takes milliseconds: not for what is measured in those."""
        done = threading.Event()

        def sample() -> None:
            while not done.wait(_PERIOD_S):
                self.figures()

        thread = threading.Thread(target=sample, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def anonymous() -> list[int]:
    """Bytes of each Python process of Spark below this one: the daemon and those that it forked."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if any(name in process.cmdline() for name in _DAEMONS):
                status = Path(f"/proc/{process.pid}/status").read_text()
                match = re.search(r"RssAnon:\s+(\d+) kB", status)
                found.append(int(match[1]) * 1024 if match else 0)
        except (psutil.Error, OSError):
            continue  # gone meanwhile
    return found
