"""Spark sessions: those that we create are tuned for small steps, those that users bring are only advised on.

Tuning is for speed alone. Whatever changes answers (ANSI, time zone, case sensitivity) stays as Spark or the
user has it.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import SparkNoSuchElementException
from pyspark.sql import SparkSession

from tidemill.pipeline.errors import Refused, SparkGone
from tidemill.pipeline.runtimes.java import prepare_java

# Each setting with what it costs a pipeline to have another value.
_TUNING = (
    (
        "spark.sql.adaptive.enabled",
        "false",
        "every stage of a step becomes a job of its own, and the same plan is made anew each time",
    ),
    (
        "spark.sql.codegen.wholeStage",
        "false",
        "Java is generated and compiled for plans that only hand blobs to Python",
    ),
    (
        "spark.sql.execution.arrow.pyspark.enabled",
        "true",
        "rows go between Spark and pandas one by one",
    ),
    (
        "spark.python.unix.domain.socket.enabled",
        "true",
        "data goes to Python over TCP: a small step takes 1.5 times as long",
    ),
    (
        "spark.python.worker.reuse",
        "true",
        "every task starts a Python process",
    ),
    (
        "spark.python.daemon.module",
        "tidemill.pipeline.runtimes.daemon",
        "each new Python process imports for over a second, and collects garbage for 30 ms after every task",
    ),
    (
        "spark.locality.wait",
        "0s",
        "a task waits up to 3 s for a place near its data, which is as near anywhere",
    ),
    (
        "spark.shuffle.compress",
        "false",
        "blobs that live for milliseconds are compressed",
    ),
    (
        "spark.ui.enabled",
        "false",
        "every job and task is also kept for a web page",
    ),
    (
        "spark.driver.extraJavaOptions",
        # Steps end before the optimizing compiler pays, and it takes the cores that they run on.
        "-XX:+UseParallelGC -XX:TieredStopAtLevel=1",
        "the JVM compiles and collects in the background, on the cores of the steps",
    ),
)
TUNED: dict[str, str] = {name: value for name, value, _ in _TUNING}

# The daemon has to be importable before Spark ships anything, which holds only where Tidemill is installed.
_LOCAL_ONLY = {"spark.python.daemon.module"}
_OURS = "spark.tidemill.session"
_REMEDY = "open the pipeline again in a new process"
_MEMORY_DISK = Path("/dev/shm")
_ROOM_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class Advice:
    """A setting of a session that makes pipelines slower: its value, a better one, and what that costs."""

    setting: str
    value: str
    better: str
    cost: str


def create_session(
    app: str = "tidemill", *, master: str = "local[*]", settings: Mapping[str, str] = {}
) -> SparkSession:
    """Start Spark, tuned for pipelines; `settings` win over the tuning.

    On a local master it listens on loopback alone. Raises `NoJava` without a Java, and `Refused` when this
    process has a session already, since Spark would return that one and drop most of the settings.
    """
    if SparkContext._active_spark_context is not None:
        raise Refused("this process has a Spark session already; use that one, or stop it first")
    prepare_java()
    if is_local(master):
        # Otherwise Spark takes the python3 on PATH, which may be another with other packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Whoever runs the steps shows their progress.
    chosen = {
        "spark.ui.showConsoleProgress": "false",
        _OURS: "true",
        **tuned_for(master),
        **_local_settings(master),
        **settings,
    }
    conf = SparkConf().setAll(list(chosen.items()))
    return SparkSession.builder.master(master).appName(app).config(conf=conf).getOrCreate()


@contextmanager
def spark_there(what: str = "") -> Iterator[None]:
    """Within it, `SparkGone` is raised, with what was under way, when Spark's own process has ended."""
    try:
        yield
    except (ConnectionError, Py4JError) as error:
        if _answers():
            raise
        reason = f"Spark is gone ({error}): {_REMEDY}"
        raise SparkGone(f"{what}: {reason}" if what else reason) from error


def _answers() -> bool:
    """Whether Spark's own process is there. Py4J does not tell those whose call was cut off."""
    gateway = SparkContext._gateway
    try:
        return gateway is not None and gateway.jvm.System.nanoTime() is not None
    except (ConnectionError, Py4JError):
        return False


@spark_there()
def own_session() -> SparkSession:
    """The session of this process if it is one of ours, else a new one. Raises as `create_session`."""
    context = SparkContext._active_spark_context
    if context is not None and context.getConf().contains(_OURS):
        return SparkSession.builder.getOrCreate()
    return create_session()


def check_session(spark: object) -> None:
    """Raise `Refused` when pipelines cannot run on this session, and say why; `SparkGone` if nothing can."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise Refused(
            "this is a Spark Connect session, which hides the plans and job properties that pipelines need; "
            "create a classic session, without remote() and SPARK_REMOTE"
        )
    if not isinstance(spark, SparkSession):
        raise Refused(f"this is no SparkSession but a {type(spark).__name__}")
    if spark.sparkContext._jsc is None:
        raise Refused("this Spark session was stopped")
    if not _answers():
        raise SparkGone(f"Spark is gone: {_REMEDY}")


def check_python(spark: SparkSession) -> None:
    """Raise `Refused` when the tasks of a local session run in a Python that lacks this package."""
    context = spark.sparkContext
    python = shutil.which(context.pythonExec)
    if not is_local(str(context.master)) or (python and Path(python).parent == Path(sys.executable).parent):
        return
    probe = [python or context.pythonExec, "-c", "import tidemill.pipeline.worker"]
    try:
        subprocess.run(probe, check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise Refused(
            f"Spark's tasks would run in {python or context.pythonExec}, which lacks "
            f"tidemill or what it needs: set PYSPARK_PYTHON={sys.executable} before the session is started"
        ) from error


def advise(spark: SparkSession) -> list[Advice]:
    """What makes pipelines slower on this session than on one of ours. Changes nothing."""
    costs = {name: cost for name, _, cost in _TUNING}
    context = spark.sparkContext
    master = str(context.master)
    found = []
    for name, better in tuned_for(master).items():
        value = _effective(spark, name)
        if not _as_good(spark, name, value, better):
            found.append(Advice(name, value, better, costs[name]))
    python = shutil.which(context.pythonExec)
    if is_local(master) and (python is None or Path(python).parent != Path(sys.executable).parent):
        cost = "tasks run in another Python than this one, which may lack their packages"
        found.append(Advice("PYSPARK_PYTHON", python or context.pythonExec, sys.executable, cost))
    return found


def tuned_for(master: str) -> dict[str, str]:
    """The part of `TUNED` that fits where the tasks run."""
    return {name: value for name, value in TUNED.items() if is_local(master) or name not in _LOCAL_ONLY}


def is_local(master: str) -> bool:
    """Whether tasks run in threads of the driver."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def _local_settings(master: str) -> dict[str, str]:
    if not is_local(master):
        return {}
    threads = re.search(r"\d+", master)
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Spark's 200 are meant for a cluster; without adaptive plans nothing would reduce them.
        "spark.sql.shuffle.partitions": threads[0] if threads else str(os.cpu_count() or 1),
    }
    if _MEMORY_DISK.is_dir() and shutil.disk_usage(_MEMORY_DISK).free >= _ROOM_BYTES:
        # It holds shuffles, which are gone after the step and worth nothing after a crash.
        settings["spark.local.dir"] = str(_MEMORY_DISK)
    return settings


def _effective(spark: SparkSession, name: str) -> str:
    try:
        return str(spark.conf.get(name))
    except SparkNoSuchElementException:
        return str(_entry(spark, name).defaultValueString())


def _as_good(spark: SparkSession, name: str, value: str, better: str) -> bool:
    if set(better.split()) <= set(value.split()):
        return True
    convert = _entry(spark, name).valueConverter()
    return bool(convert.apply(value) == convert.apply(better))


def _entry(spark: SparkSession, name: str) -> Any:
    """How Spark itself declares the setting; None when it does not know it."""
    assert spark._jvm is not None
    return spark._jvm.org.apache.spark.internal.config.ConfigEntry.findEntry(name)
