"""The process that forks Spark's Python workers; `spark.python.daemon.module` names it.

Spark's own daemon forks first and imports afterwards, so every new worker spends over a second on imports,
and the `gc.collect()` that follows each task walks over all that they created. Here the imports come first
and are frozen out of the collector; the rest is Spark's daemon.

A forked child has the memory of its parent but not its threads, so no thread may exist before the fork.
"""

import gc
import os
from importlib import import_module

from pyspark import daemon

PRELOADED = (
    "numpy.random",
    "pandas",
    "pyarrow.compute",
    "pyarrow.ipc",
    "pyspark.worker",
    "tidemill.pipeline.worker",
)

# Libraries that would start threads when they are loaded, kept from it.
THREADLESS = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}


def preload() -> None:
    """Load what the workers use, without starting a thread, and exempt it from garbage collection."""
    os.environ.update(THREADLESS)
    for module in PRELOADED:
        import_module(module)
    # The state of numpy's generator is a copy in every child; without a new seed all would draw the same.
    os.register_at_fork(after_in_child=import_module("numpy.random").seed)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    preload()
    daemon.manager()
