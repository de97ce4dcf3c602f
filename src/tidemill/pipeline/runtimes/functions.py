"""Python functions in fragments: called by a name that says their code, found in the session by that.

A fragment calls `` `rate@5f1c0a93e2b47d68`(c0) ``: what a user's function is called, and the hash of what it
does. So two bodies under one name are two computations, and one body always is the same.
"""

import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.core.broadcast import Broadcast
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill.pipeline.errors import Refused, StepFailed
from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.plan.node import SparkSelect
from tidemill.pipeline.runtimes.code import code_hash

CALLED = re.compile(r"`((?:[^`]|``)+@[0-9a-f]{16})`\(")
TRACE = re.compile(r'File "([^"]+)", line (\d+)')
UDF = "org.apache.spark.sql.execution.python.UserDefinedPythonFunction"


class Functions:
    """The Python functions that the fragments of one pipeline call.

    Those of the queries that were planned are known. After a pipeline was opened again, they are looked for
    among the functions that the session has, by their code.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._known: dict[str, JavaObject] = {}

    def name(self, function: JavaObject) -> str:
        """How fragments call a function of a query. Raises `Refused` for one whose code cannot be told."""
        name = _name_of(function)
        self._known[name] = function
        return name

    @contextmanager
    def callable(self) -> Iterator[None]:
        """Within it, the session can call those that are known by the names that fragments use."""
        session = self._spark._jsparkSession
        for name, function in self._known.items():
            session.udf().registerPython(name, self._callable(function))
        try:
            yield
        finally:
            for name in self._known:
                session.sessionState().catalog().dropTempFunction(name, True)

    def require(self, circuit: Circuit) -> None:
        """Find all that a circuit calls.

        Raises `StepFailed` with the view and the function when the session has none with the code.
        """
        wanted = called_in(circuit)
        if wanted.keys() <= self._known.keys():
            return
        there = {_name_of(function): function for function in self._registered()}
        by_code = {name.rpartition("@")[2]: function for name, function in there.items()}
        for name, views in wanted.items():
            if name in self._known:
                continue
            plain, _, code = name.rpartition("@")
            if code not in by_code:
                raise StepFailed(_missing(plain, views, other=any(f"{plain}@" in one for one in there)))
            self._known[name] = by_code[code]

    def in_trace(self, trace: str) -> set[str]:
        """Those that a Python traceback goes through, by the names that fragments use."""
        places = {(file, int(line)) for file, line in TRACE.findall(trace)}
        return {name for name, function in self._known.items() if places & _places_of(function)}

    def _registered(self) -> Iterator[JavaObject]:
        """The session's own functions in Python."""
        java: Any = self._spark._jvm
        catalog = self._spark._jsparkSession.sessionState().catalog()
        nothing = java.org.apache.spark.api.python.PythonUtils.toSeq([])
        names = catalog.listTemporaryFunctions()
        for index in range(names.size()):
            try:
                found = catalog.resolveBuiltinOrTempFunction(names.apply(index).funcName(), nothing).get()
            except (Py4JJavaError, PySparkException):
                continue  # one of another language, which wants arguments
            if str(found.getClass().getSimpleName()) == "PythonUDF":
                yield found

    def _callable(self, function: JavaObject) -> JavaObject:
        kind: Any = self._spark._jvm
        for part in UDF.split("."):
            kind = getattr(kind, part)
        return kind(
            function.name(),
            function.func(),
            function.dataType(),
            function.evalType(),
            function.udfDeterministic(),
            [],
            [],
        )


def called_in(circuit: Circuit) -> dict[str, tuple[str, ...]]:
    """The functions that a circuit's fragments call, each with the views that need it."""
    found: dict[str, tuple[str, ...]] = {}
    for position, node in enumerate(circuit.nodes):
        if isinstance(node, SparkSelect):
            for name in called_by(node):
                found[name] = (*found.get(name, ()), *circuit.views_above(position))
    return {name: tuple(dict.fromkeys(views)) for name, views in found.items()}


def called_by(node: SparkSelect) -> set[str]:
    texts = " ".join((*node.columns, node.where or ""))
    return {name.replace("``", "`") for name in CALLED.findall(texts)}


def command_of(function: JavaObject) -> bytes:
    """The function and the type that it returns, as Spark has pickled the two."""
    return bytes(int(each) & 0xFF for each in function.func().command().mkString(",").split(","))


def _name_of(function: JavaObject) -> str:
    name, kind = str(function.name()), str(function.dataType().json())
    loaded = pickle.loads(command_of(function))
    if isinstance(loaded, Broadcast):
        raise Refused(f"{name} holds too much data to go with a view: make that a table, and join it")
    return f"{name}@{code_hash(loaded[0], kind, str(function.evalType()))}"


def _places_of(function: JavaObject) -> set[tuple[str, int]]:
    """The lines of its text."""
    body, _ = pickle.loads(command_of(function))
    code = getattr(body if hasattr(body, "__code__") else type(body).__call__, "__code__", None)
    return {(code.co_filename, line) for *_, line in code.co_lines()} if code else set()


def _missing(name: str, views: tuple[str, ...], *, other: bool) -> str:
    calls = f"view {', '.join(views)} calls the Python function {name}"
    if other:
        return (
            f"{calls}, and the one that this session has under that name has other code: register the one "
            "that the view was created with, under any name, or drop the view and create it again"
        )
    return f"{calls}, which this session does not have: register it, with spark.udf.register({name!r}, …)"
