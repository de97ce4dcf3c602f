"""The process that forks Spark's Python workers; `spark.python.daemon.module` names it.

Spark's own daemon forks first and imports afterwards, so every new worker spends over a second on imports,
and the `gc.collect()` that follows each task walks over all that they created. Here the imports come first
and are frozen out of the collector; the rest is Spark's daemon.

A forked child has the memory of its parent but not its threads, so no thread may exist before the fork.
What `malloc` is told here, it does in the children too.
"""

import ctypes
import gc
import os
from importlib import import_module

from pyspark import daemon

PRELOADED = (
    "numpy.random",
    "pandas",
    "pyarrow.compute",
    "pyarrow.ipc",
    "pyarrow.parquet",
    "pyspark.worker",
    "tidemill.pipeline.worker",
)

# Libraries that would start threads when they are loaded, kept from it.
THREADLESS = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}

# Options of `mallopt`: arrays up to the one size come from the heap, of which so much is kept when free.
MALLOC = {"M_MMAP_THRESHOLD": (-3, 32 << 20), "M_TRIM_THRESHOLD": (-1, 256 << 20)}


def keep_memory() -> None:
    """Have freed memory serve the next arrays: fresh pages take longer than most of what is done to them.

    Does nothing where the C library has no such options, or the environment has set its own.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt") and "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        for option, size in MALLOC.values():
            library.mallopt(option, size)


def preload() -> None:
    """Load what the workers use, without starting a thread, and exempt it from garbage collection."""
    keep_memory()
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
