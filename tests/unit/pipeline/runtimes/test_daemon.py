"""Everything that workers need is there before the first fork, and no thread is."""

import json
import os
import subprocess
import sys

import pytest

from tidemill.pipeline.runtimes.daemon import PRELOADED, THREADLESS

PROGRAM = """
import gc, json, os, sys
from tidemill.pipeline.runtimes.daemon import preload
preload()
print(json.dumps([len(os.listdir("/proc/self/task")), gc.get_freeze_count(), sorted(sys.modules)]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_preloading_starts_no_thread_and_freezes_what_it_loaded() -> None:
    environ = {name: value for name, value in os.environ.items() if name not in THREADLESS}

    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environ | {"OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
    )

    threads, frozen, modules = json.loads(answer.stdout)
    assert threads == 1
    assert frozen > 50_000
    assert set(PRELOADED) <= set(modules)
