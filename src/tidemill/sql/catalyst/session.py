"""A pipeline's tables and views in Spark: empty frames, seen by name while a query is analysed."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidemill.pipeline.errors import NoSuchName, Place, Refused
from tidemill.pipeline.runtimes.functions import Functions
from tidemill.sql.words import place_at

SPARKS_PLACE = re.compile(r";? \(?line \d+,? pos \d+\)?$")
CONTEXT = re.compile(r"== SQL .*\(line (\d+), position (\d+)\) ==")
STREAM = re.compile(r"\bSTREAM\b", re.IGNORECASE)
JAVA = re.compile(r"\b(?:java|org\.apache|scala)\.\w+\.")
CLASS = re.compile(r"^(?:[a-z]\w*\.)+[A-Z][\w$]*: ")
FIRST = "and QUALIFY row_number() OVER (PARTITION BY key of the left row ORDER BY {}) = 1"
ASOF = f"write JOIN … ON with both conditions {FIRST.format('time of the right row DESC')}"
"""Instead of an ASOF JOIN, which Spark reads only where it is asked to."""


class Lacking(Refused):
    """A query asks for a table or view, `name`, that the pipeline does not have."""

    def __init__(self, message: str, name: str, *, place: Place | None = None) -> None:
        super().__init__(message, place=place)
        self.name = name


class Frames:
    """The tables and views of one pipeline as frames of a session, which hold no rows and cannot be run.

    Each lies over an RDD of its own: Spark folds an empty local relation away, and the RDD's number tells, in
    any plan, which table a leaf stands for. The session's own catalog is left alone: a query is analysed in a
    clone of the session, which has its settings and functions, and in which our names hide others.
    """

    def __init__(self, spark: SparkSession) -> None:
        if type(spark).__module__.startswith("pyspark.sql.connect"):
            raise Refused(
                "a Spark Connect session cannot plan a pipeline: use a classic one, made with .master(…)"
            )
        self.spark = spark
        self.functions = Functions(spark)
        self._frames: dict[str, tuple[Any, DataFrame]] = {}
        self._names: dict[int, str] = {}

    def register(self, name: str, schema: Any) -> None:
        """Make a table or view known. Nothing happens as long as its schema stays the same."""
        known = self._frames.get(name)
        if known and known[0] == schema:
            return
        nothing = self.spark.sparkContext.parallelize([name], 1).mapPartitions(_refuse_to_run)
        frame = self.spark.createDataFrame(nothing, StructType.fromJson(schema))
        self.forget(name)
        self._frames[name] = schema, frame
        self._names[_number(frame)] = name

    def copy(self) -> "Frames":
        """The same frames, to be added to and taken away from apart."""
        other = Frames(self.spark)
        other.functions = self.functions
        other._frames, other._names = dict(self._frames), dict(self._names)
        return other

    def frame(self, name: str) -> DataFrame:
        """The table or view, to build queries on."""
        if name not in self._frames:
            raise NoSuchName(f"there is no table or view {name!r}")
        return self._frames[name][1].alias(name)

    @property
    def names(self) -> set[str]:
        return set(self._frames)

    def forget(self, name: str) -> None:
        """Frames of that name, and what was built on them, can no longer become a view."""
        if self._frames.pop(name, None):
            self._names = {number: other for number, other in self._names.items() if other != name}

    def name_of(self, leaf: JavaObject) -> str | None:
        """The table or view that a leaf of a plan stands for."""
        return self._names.get(leaf.rdd().id())

    def query(self, text: str, line: int = 1, column: int = 1) -> DataFrame:
        """The frame of a query over the tables and views. `line` and `column` say where its text starts.

        Raises `Refused` with Spark's message if it is not a query, or names what is not there.
        """
        session = self.clone(text, lambda name: self._frames[name][1])
        # Spark counts lines and columns from the start of what it is given.
        padded = "\n" * (line - 1) + " " * (column - 1) + text
        with told_by_spark(", ".join(self._frames)):
            plan = session.sessionState().sqlParser().parseQuery(padded)
            if plan.isStreaming():
                found = STREAM.search(padded)
                raise Refused(
                    "STREAM is not supported: name the table itself, views follow its changes",
                    place=found and place_at(padded, found.start()),
                )
            return DataFrame(self.rows(session, plan), self.spark)

    def clone(self, text: str, frames: Callable[[str], DataFrame | None]) -> JavaObject:
        """A session like the user's, in which the names that the text may mean stand for these frames.

        None leaves a name alone.
        """
        # No session of Python's is made of it: the newest one of those becomes the session of `RDD.toDF`.
        session = self.spark._jsparkSession.cloneSession()
        for name in self._frames:
            frame = frames(name) if _may_mean(text, name) else None
            if frame is not None:
                self.rows(session, frame._jdf.logicalPlan()).createOrReplaceTempView(quoted(name))
        return session

    def rows(self, session: JavaObject, plan: JavaObject) -> JavaObject:
        """What the plan gives when that session runs it."""
        return jvm(self.spark).org.apache.spark.sql.classic.Dataset.ofRows(session, plan)

    def optimized(self, frame: DataFrame, analyzed: JavaObject | None = None) -> JavaObject:
        """Spark's optimized plan, of another analyzed one if given.

        Not the frame's own, in which whatever the user cached is a leaf. Raises `Refused` when Spark itself
        fails over the query, as it does for some that it has found to be well-formed.
        """
        session = frame._jdf.sparkSession()
        with self.active(session), told_by_spark():
            plan = analyzed or frame._jdf.queryExecution().analyzed()
            return session.sessionState().optimizer().execute(plan)

    @contextmanager
    def active(self, session: JavaObject) -> Iterator[None]:
        """Within it, Spark's rules follow that session's settings."""
        sessions = jvm(self.spark).org.apache.spark.sql.classic.SparkSession
        before = sessions.getActiveSession()
        sessions.setActiveSession(session)
        try:
            yield
        finally:
            if before.isDefined():
                sessions.setActiveSession(before.get())
            else:
                sessions.clearActiveSession()


def _refuse_to_run(names: Iterable[str]) -> Iterable[Any]:
    """What Spark runs when somebody asks a frame for its rows, which it would take for none."""
    raise RuntimeError(
        f"p.table({next(iter(names))!r}) has no rows, it is for building views: a pivot must be told its "
        "values, and what is in a table or view is read with p.view(name)"
    )


def jvm(spark: SparkSession) -> Any:
    """The classes of the session's Java machine."""
    return spark._jvm


@contextmanager
def unlogged() -> Iterator[None]:
    """Within it pyspark does not log what Spark says about a text that it cannot read: we tell it."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def quoted(name: str) -> str:
    """A name as SQL writes it when it is not a plain word."""
    return f"`{name.replace('`', '``')}`"


def _unquoted(name: str) -> str:
    return name.removeprefix("`").removesuffix("`").replace("``", "`")


def _may_mean(text: str, name: str) -> bool:
    """Whether a query may speak of the name: it stands there, or is put together by IDENTIFIER."""
    found = text.casefold()
    return name.casefold() in found or name.replace("`", "``").casefold() in found or "identifier" in found


def _number(frame: DataFrame) -> int:
    return int(frame._jdf.logicalPlan().rdd().id())


@contextmanager
def told_by_spark(names: str = "") -> Iterator[None]:
    """Within it, what Spark has against a query is raised as `Refused`, in its words and at its place.

    `names` are the tables and views that there are, for one that is not.
    """
    try:
        with unlogged():
            yield
    except (PySparkException, Py4JJavaError) as error:
        text = told(error)
        if text.startswith("[TABLE_OR_VIEW_NOT_FOUND]") and isinstance(error, PySparkException):
            text = f"{text.partition(' Verify')[0]} The pipeline has: {names or 'none yet'}"
            name = (error.getMessageParameters() or {}).get("relationName", "")
            raise Lacking(text, _unquoted(name), place=_place(error)) from error
        if text.startswith("[UNSUPPORTED_FEATURE.ASOF_JOIN]"):
            text = f"ASOF JOIN is not supported yet in a view: {ASOF}"
        raise Refused(text, place=_place(error)) from error


def told(error: Exception) -> str:
    """The first line of what Spark says, without the place that it found, nor the names of Java's classes."""
    lines = (line for line in str(error).splitlines() if line.strip())
    text = SPARKS_PLACE.sub("", CLASS.sub("", next(lines, "")).rstrip("; "))
    if isinstance(error, Py4JJavaError) or not text or JAVA.search(text):
        return "Spark itself fails over this query, by a mistake of its own: write it in another way"
    return text


def _place(error: PySparkException | Py4JJavaError) -> Place | None:
    """Where Spark found it: some errors know the line, others the part of the text that they are about."""
    if isinstance(error, AnalysisException | ParseException) and (java := getattr(error, "_origin", None)):
        known = place(java.line(), java.startPosition())
        if known:
            return known
    for context in error.getQueryContext() if isinstance(error, PySparkException) else ():
        if found := CONTEXT.match(context.summary()):
            return Place(int(found[1]), int(found[2]))
    return None


def place(line: JavaObject, start: JavaObject) -> Place | None:
    """Of what Spark knows: the line from 1, the position in it from 0; neither may be there."""
    if line.isEmpty():
        return None
    return Place(line.get(), 1 if start.isEmpty() else start.get() + 1)
