"""A file of SQL explained as a pipeline would be, without one: no folder, no rows."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill.pipeline.errors import PipelineError, Refused
from tidemill.pipeline.runtimes.session import create_session
from tidemill.sql.explain import Form
from tidemill.sql.planner import Planner
from tidemill.sql.statements import parse

_ERRORS = 2


def explain_file(path: Path, form: Form = "text") -> str:
    """The circuit of what the file creates, planned on the Spark of this process, else on one of its own.

    Raises `Refused` with file, line and column, as `Pipeline.sql` would. Functions in Python are unknown to
    a session in which nobody registered them.
    """
    text = read_script(path)
    planner = Planner(_session())
    change = planner.script(text, str(path))
    if change is not None:
        planner.load(change.plan)
    return planner.explain(form)


def read_script(path: Path) -> str:
    """The text of a file of SQL. Raises `Refused` if it is none, or its statements are none of a pipeline."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise Refused(f"{path}: this is no text in UTF-8, at byte {error.start}") from error
    try:
        if not parse(text):
            raise Refused("there is no statement in it: write CREATE TABLE and CREATE VIEW")
    except Refused as error:
        error.file = str(path)
        raise
    return text


def _session() -> SparkSession:
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    try:
        with _unheard():
            return create_session("tidemill explain", master="local[1]")
    except PySparkException as error:
        raise PipelineError("Spark does not start: tidemill doctor --spark says why") from error


@contextmanager
def _unheard() -> Iterator[None]:
    """What is started within it never writes to our standard error: Spark's Java process logs there."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as nowhere:
        ours = os.dup(_ERRORS)
        os.dup2(nowhere.fileno(), _ERRORS)
        try:
            yield
        finally:
            os.dup2(ours, _ERRORS)
            os.close(ours)
