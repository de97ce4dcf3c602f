"""Aggregate functions over pandas or Arrow that users registered in Spark, called as Spark's workers do."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.conversion import ArrowBatchTransformer, PandasToArrowConversion
from pyspark.sql.types import StructField, StructType
from pyspark.util import PythonEvalType

from tidemill.pipeline import types
from tidemill.pipeline.operators.aggregates.user import localized

PANDAS = {PythonEvalType.SQL_GROUPED_AGG_PANDAS_UDF, PythonEvalType.SQL_GROUPED_AGG_PANDAS_ITER_UDF}
ITERATES = {PythonEvalType.SQL_GROUPED_AGG_PANDAS_ITER_UDF, PythonEvalType.SQL_GROUPED_AGG_ARROW_ITER_UDF}


@dataclass(frozen=True)
class PandasAggregate:
    """Such a function and the type that it returns, as Spark has pickled the two.

    `kind` says how it wants to be called, by Spark's number;
    `zone` is the session's time zone, in which it sees timestamps.
    """

    name: str
    command: bytes
    kind: int
    zone: str

    def __reduce__(self) -> tuple[Any, ...]:
        return PandasAggregate, (self.name, self.command, self.kind, self.zone)

    @cached_property
    def _loaded(self) -> tuple[Callable[..., Any], Any]:
        return pickle.loads(self.command)  # type: ignore[no-any-return]

    def __call__(self, *columns: pa.Array) -> Any:
        function, returned = self._loaded
        local = [localized(column, self.zone) for column in columns]
        plain = [column.cast(types.plain(column.type)) for column in local]
        table = pa.table(plain, [f"c{place}" for place in range(len(plain))])
        given = ArrowBatchTransformer.to_pandas(table, timezone=self.zone) if self.kind in PANDAS else plain
        if self.kind in ITERATES:
            one = given[0] if len(given) == 1 else tuple(given)
            value = function(iter([one]))
        else:
            value = function(*given)
        if self.kind not in PANDAS:
            return value.as_py() if isinstance(value, pa.Scalar) else value
        schema = StructType([StructField("value", returned)])
        batch = PandasToArrowConversion.convert(
            [pd.Series([value])], schema, timezone=self.zone, arrow_cast=True
        )
        return batch.column(0)[0].as_py()
