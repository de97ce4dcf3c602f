"""Aggregates written in Python: checked, pickled with their code, and made known to a session."""

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from tidemill.pipeline.errors import NameTaken, Refused, StepAborted
from tidemill.pipeline.operators.aggregates.user import UserAggregate
from tidemill.pipeline.runtimes.session import spark_there
from tidemill.pipeline.types import from_spark

_cloudpickle: Any = cloudpickle
NEEDED = ("zero", "add", "finish")


class Aggregates:
    """What has a session, and makes aggregates known to it."""

    spark: SparkSession

    @spark_there()
    def aggregate(
        self, name: str, aggregate: Any, *, returns: str, takes: str | None = None
    ) -> Callable[..., Any]:
        """Make an aggregate in Python known to this session, for `sql` and, as what is returned, for frames.

        It is an object, or a class of one, with `zero()`, `add(state, *values)` and `finish(state)`; `add`
        returns the state. With `retract(state, *values)` each group has a state and a change costs its own
        size; without, a group that is touched is computed anew. With `merge(state, state)` less travels. No
        result may depend on the order of rows. A state is what msgspec can write, read back as the type that
        `zero` is annotated to return. `returns` and `takes` are types of Spark: "double", "bigint, string".

        A view keeps the code with which it was created, also when the pipeline is opened again; another one
        of the same name serves the views that are created after. Raises `Refused` for what cannot be kept.
        """
        return register_aggregate(self.spark, name, aggregate, returns, takes)


def register_aggregate(
    spark: SparkSession, name: str, aggregate: Any, returns: str, takes: str | None
) -> Callable[..., Any]:
    """Make an aggregate known to the session under a name; what it returns serves queries over frames.

    Raises `Refused` for one that lacks a method, cannot be pickled, or whose state cannot be kept, and
    `NameTaken` for the name of a function of Spark.
    """
    if not name.isidentifier():
        raise Refused(f"aggregate {name!r}: its name must be a plain word")
    if _is_builtin(spark, name):
        raise NameTaken(f"aggregate {name}: Spark has a function of that name")
    body = _made(name, aggregate)
    missing = [method for method in NEEDED if not callable(getattr(body, method, None))]
    if missing:
        raise Refused(f"aggregate {name}: {type(body).__name__} has no {', '.join(missing)}")
    kinds = None if takes is None else tuple(_type(name, part) for part in _parts(takes))
    user = UserAggregate(name, _pickled(name, body), kinds)
    try:
        if user.retracts:
            user.read(user.written(user.zero()))
    except StepAborted as error:
        raise Refused(str(error)) from error
    function = UserDefinedFunction(
        user, _parsed(name, returns), name, PythonEvalType.SQL_GROUPED_AGG_ARROW_UDF
    )
    spark.udf.register(name, function)
    return function


def _made(name: str, aggregate: Any) -> Any:
    """The object with the methods: the one given, or one of the class given."""
    if not isinstance(aggregate, type):
        return aggregate
    try:
        return aggregate()
    except Exception as error:
        raise Refused(
            f"aggregate {name}: {aggregate.__name__}() failed, {error}: hand over an object that is made"
        ) from error


def _pickled(name: str, body: Any) -> bytes:
    """The object with the code of its class, which may then change in its module as it likes."""
    module, pickles = sys.modules.get(type(body).__module__), _cloudpickle
    try:
        if module is None or module.__name__ == "__main__":
            return bytes(pickles.dumps(body))
        pickles.register_pickle_by_value(module)
        try:
            return bytes(pickles.dumps(body))
        finally:
            pickles.unregister_pickle_by_value(module)
    except Exception as error:
        raise Refused(f"aggregate {name} cannot be sent to the workers: {error}") from error


def _is_builtin(spark: SparkSession, name: str) -> bool:
    catalyst: Any = spark._jvm
    known = catalyst.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
    return bool(known.functionExists(catalyst.org.apache.spark.sql.catalyst.FunctionIdentifier(name)))


def _parsed(name: str, text: str) -> DataType:
    try:
        found = DataType.fromDDL(text)
    except PySparkException as error:
        raise Refused(f"aggregate {name}: {text!r} is no type: {str(error).splitlines()[0]}") from error
    from_spark(json.loads(found.json()))  # one that cannot be kept is refused here
    return found


def _type(name: str, text: str) -> Any:
    return json.loads(_parsed(name, text).json())


def _parts(text: str) -> list[str]:
    """The types of a list; those may have commas of their own, in brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "(<") - (letter in ")>")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
