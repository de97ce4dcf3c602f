"""Everything that workers need is there before the first fork, and no thread is."""

import ctypes
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tidemill.pipeline.runtimes.daemon import PRELOADED, THREADLESS

PRELOAD = """
import gc, json, os, sys
from tidemill.pipeline.runtimes.daemon import preload
preload()
print(json.dumps([len(os.listdir("/proc/self/task")), gc.get_freeze_count(), sorted(sys.modules)]))
"""

FAULTS = """
import json, resource, sys
from tidemill.pipeline.runtimes.daemon import preload
preload()
numpy = sys.modules["numpy"]
def work():
    [numpy.ones(400_000) for _ in range(30)]
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before))
"""

FORK = """
import json, multiprocessing, random, sys
from tidemill.pipeline.runtimes.daemon import preload
preload()
numpy, ids = sys.modules["numpy"], sys.modules["tidemill.base.ids"]
def draw(answers):
    answers.put([random.random(), numpy.random.rand(), ids.new_token(), ids.new_id()])
context = multiprocessing.get_context("fork")
answers = context.SimpleQueue()
children = [context.Process(target=draw, args=(answers,)) for _ in range(2)]
for child in children: child.start()
print(json.dumps([answers.get() for _ in children]))
for child in children: child.join()
"""


def run(program: str, **environ: str) -> Any:
    kept = {name: value for name, value in os.environ.items() if name not in THREADLESS}
    command = [sys.executable, "-c", program]
    answer = subprocess.run(command, env=kept | environ, capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_preloading_starts_no_thread_and_freezes_what_it_loaded() -> None:
    threads, frozen, modules = run(PRELOAD, OMP_NUM_THREADS="2")

    assert threads == 1
    assert frozen > 50_000
    assert set(PRELOADED) <= set(modules)


def test_forked_workers_draw_other_random_numbers() -> None:
    one, other = run(FORK)

    assert [mine for mine, theirs in zip(one, other, strict=True) if mine == theirs] == []


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library")
def test_memory_that_was_freed_serves_the_next_array() -> None:
    assert run(FAULTS) < 200
