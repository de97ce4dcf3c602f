"""Aggregate functions in Python, of which Catalyst knows the pickled code and the type of the result."""

import json
import pickle
from dataclasses import replace
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from tidemill.pipeline import types
from tidemill.pipeline.errors import Place, Refused
from tidemill.pipeline.operators.aggregates.user import UserAggregate, packed
from tidemill.pipeline.runtimes.functions import command_of
from tidemill.pipeline.runtimes.pandas_aggregate import PandasAggregate
from tidemill.sql.catalyst.expression import items, place_of
from tidemill.sql.catalyst.session import jvm


def read_user(function: JavaObject, spark: SparkSession) -> tuple[str, Any, dict[str, str]]:
    """By what it can do, `Stateful` or `Recomputed`; its arguments; its code."""
    name, arguments = str(function.name()), items(function.children())
    place = place_of(function)
    if not function.udfDeterministic():
        raise Refused(
            f"{name} gives another value each time, as it says itself: make it deterministic", place=place
        )
    if not arguments:
        raise Refused(f"{name} has no argument: hand it a column", place=place)
    command = command_of(function)
    body, _ = pickle.loads(command)
    if not isinstance(body, UserAggregate):
        aggregate = PandasAggregate(name, command, function.evalType(), _zone(spark))
        return "Recomputed", arguments, {"name": name, "code": packed(aggregate)}
    if body.takes is not None:
        arguments = _cast(arguments, body, place, spark)
    kind = "Stateful" if body.retracts else "Recomputed"
    return kind, arguments, {"name": name, "code": packed(replace(body, takes=None, zone=_zone(spark)))}


def _cast(
    arguments: list[JavaObject], user: UserAggregate, place: Place | None, spark: SparkSession
) -> list[JavaObject]:
    """The arguments in the types that it takes, where that loses nothing."""
    wanted, java = user.takes or (), jvm(spark).org.apache.spark.sql
    shown = ", ".join(types.sql_name(types.from_spark(kind)) for kind in wanted)
    if len(arguments) != len(wanted):
        raise Refused(f"{user.name} takes ({shown}), not {len(arguments)} arguments", place=place)
    cast = java.catalyst.expressions.Cast
    zone = jvm(spark).scala.Option.apply(_zone(spark))
    found = []
    for argument, kind in zip(arguments, wanted, strict=True):
        given, to = argument.dataType(), java.types.DataType.fromJson(json.dumps(kind))
        if not cast.canUpCast(given, to):
            what = given.simpleString()
            raise Refused(f"{user.name} takes ({shown}): cast {argument.sql()}, which is {what}", place=place)
        found.append(argument if given.equals(to) else cast(argument, to, zone))
    return found


def _zone(spark: SparkSession) -> str:
    return str(spark.conf.get("spark.sql.session.timeZone"))
