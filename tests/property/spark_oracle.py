"""What Spark SQL answers on the rows that tables have, and whether two bags of rows are the same."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from property.changing_tables import CASE, Bags, Row, Table, canonical

Bag = Counter[Row]

APART = 10_000
"""By so much the cases of one step differ from those of the next, so that one query judges all steps."""

RELATIVE = 1e-9
"""How far two floats may be apart: Spark adds them in any order, rounding at each."""

NAN = "NaN"

QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}
"""For queries over few rows, which take longer to compile than to answer."""


class Oracle:
    """Answers of Spark to queries over tables as they were after each of several steps."""

    def __init__(self, spark: SparkSession, tables: Iterable[Table], bags: Sequence[Bags]) -> None:
        # In a session of its own, so that its names are not those of a pipeline; it has the same functions.
        self._spark = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        for name, value in QUICK.items() if len(bags) == 1 else ():
            self._spark.conf.set(name, value)
        self._steps = len(bags)
        self._has_cases = False
        for table in tables:
            self._has_cases |= CASE in table.columns
            rows = [
                (row[0] + step * APART, *row[1:]) if step else row
                for step, bag in enumerate(bags)
                for row in map(canonical, bag[table.name])
            ]
            columns = ", ".join(f"{column.name} {column.sql}" for column in table.columns)
            frame = self._spark.createDataFrame(table.arrow(rows), columns)
            frame.cache().createOrReplaceTempView(table.name)

    def define(self, views: Mapping[str, str]) -> None:
        """Make views known, and usable by further ones."""
        for name, query in views.items():
            self._spark.sql(query).createOrReplaceTempView(name)

    def define_frame(self, name: str, query: Callable[[Callable[[str], DataFrame]], DataFrame]) -> None:
        """Make a view known by what makes a frame of tables and views."""
        query(self._spark.table).createOrReplaceTempView(name)

    def schema(self, view: str) -> str:
        """Names and types of the columns."""
        return self._spark.table(view).schema.simpleString()

    def keeps_cases(self, view: str) -> bool:
        """Whether the view has the column `c`."""
        return self._has_cases and CASE.name in self._spark.table(view).columns

    def answers(self, view: str) -> list[Bag]:
        """The rows of a view after each step. One without the column `c` can be asked for one step only."""
        found = self._spark.table(view).toArrow()
        if not self.keeps_cases(view):
            assert self._steps == 1
            return [Counter(rows_of(found))]
        at = found.column_names.index(CASE.name)
        bags: list[Bag] = [Counter() for _ in range(self._steps)]
        for row in rows_of(found):
            step, case = divmod(row[at], APART)
            bags[step][(*row[:at], case, *row[at + 1 :])] += 1
        return bags

    def close(self) -> None:
        self._spark.catalog.clearCache()


# Rows that can be compared


def rows_of(table: pa.Table) -> Iterator[Row]:
    """Rows of values that are equal if they are for Spark: one NaN, maps as sets of entries."""
    columns = [map(plain(column.type), column.to_pylist()) for column in table.columns]
    return zip(*columns, strict=True) if columns else iter([()] * table.num_rows)


def plain(kind: pa.DataType) -> Callable[[Any], Any]:
    make = _plain(kind)
    return lambda value: None if value is None else make(value)


def _plain(kind: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_floating(kind):
        return lambda value: NAN if math.isnan(value) else value
    if pa.types.is_map(kind):
        key, item = plain(kind.key_type), plain(kind.item_type)
        return lambda entries: frozenset((key(one), item(other)) for one, other in entries)
    if pa.types.is_nested(kind) and not pa.types.is_struct(kind):
        element = plain(kind.value_type)
        return lambda items: tuple(map(element, items))
    if pa.types.is_struct(kind):
        parts = [(part.name, plain(part.type)) for part in kind]
        return lambda fields: tuple(make(fields[name]) for name, make in parts)
    return lambda value: value


def differences(ours: Bag, theirs: Bag) -> list[tuple[Row, int]]:
    """The rows that we have too many of, with how many; negative for those that we lack."""
    extra, missing = ours - theirs, theirs - ours
    waiting: dict[Any, list[Row]] = {}
    for row in missing.elements():
        waiting.setdefault(_shape(row), []).append(row)
    found: Counter[Row] = Counter()
    for row in extra.elements():
        others = waiting.get(_shape(row), [])
        close = next((other for other in others if _close(row, other)), None)
        if close is None:
            found[row] += 1
        else:
            others.remove(close)
    for others in waiting.values():
        found.subtract(others)
    return list(found.items())


def _shape(value: Any) -> Any:
    """The value without its floats."""
    if isinstance(value, tuple):
        return tuple(map(_shape, value))
    return float if isinstance(value, float) else value


def _close(one: Any, other: Any) -> bool:
    """Whether two values of one shape are the same but for rounding."""
    if isinstance(one, tuple):
        return all(map(_close, one, other))
    return one == other or (isinstance(one, float) and math.isclose(one, other, rel_tol=RELATIVE))
