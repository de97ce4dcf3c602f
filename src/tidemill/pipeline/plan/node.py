"""The operators of a circuit, as data: what each computes, from which nodes, to which columns.

A node names its inputs by their position in the circuit, which lists every node after its inputs. What a
node does lies in `tidemill.pipeline.operators`, one file for each of these classes.
"""

from functools import cached_property
from typing import Any, ClassVar

import msgspec
import pyarrow as pa

from tidemill.pipeline import types
from tidemill.pipeline.plan.expression import Call, Column, Literal


class Node(msgspec.Struct, frozen=True, tag_field="is", dict=True):
    """One operator. `spark_schema` is the schema of its rows in Spark's JSON form."""

    inputs: tuple[int, ...]
    spark_schema: Any

    shared: ClassVar[bool] = False
    """Whether a view that is created later may use this node's state: it must hold all that went through."""

    @cached_property
    def schema(self) -> pa.Schema:
        return types.schema_from_spark(self.spark_schema)


class Source(Node, frozen=True, tag="source"):
    """A table: appended rows become its exact change, and it keeps its rows, arranged by `shard_key`.

    With a primary `key`, a row replaces the one with its key; `shard_key` is then the same columns.
    `epoch` tells a table from an earlier one of the same name.
    """

    table: str
    key: tuple[int, ...]
    shard_key: tuple[int, ...]
    epoch: int = 0

    shared = True


class Select(Node, frozen=True, tag="select"):
    """Of the rows where `where` is true, the values of `columns`."""

    where: Column | Literal | Call | None
    columns: tuple[Column | Literal | Call, ...]


class SparkSelect(Node, frozen=True, tag="spark_select"):
    """As `Select`, in Spark: SQL texts over columns named c0, c1, … For functions that are not proved."""

    where: str | None
    columns: tuple[str, ...]


class Union(Node, frozen=True, tag="union"):
    """The rows of all inputs, with their weights."""


class Negate(Node, frozen=True, tag="negate"):
    """The rows of the input with the opposite weights."""


class Exchange(Node, frozen=True, tag="exchange"):
    """The same rows, each at the pipeline worker that owns the shard of its `key`."""

    key: tuple[int, ...]


class Arrange(Node, frozen=True, tag="arrange"):
    """Passes its input on and keeps the running sum of it, to be looked up by `key`.

    The input must be spread by `key`. With `salt`, two nodes that compute the same keep separate state.
    """

    key: tuple[int, ...]
    salt: int = 0

    shared = True


class Join(Node, frozen=True, tag="join"):
    """Pairs of rows whose keys are equal, where `condition` (over the columns of both) is true.

    Both inputs are arranged (`Arrange` or `Source`) by their join keys, in the same order. A NULL in a key
    equals nothing. Columns: those of the left, then those of the right.
    """

    condition: Column | Literal | Call | None


class AggregateCall(msgspec.Struct, frozen=True):
    """One aggregate: Count, Sum, Average, Min, Max (Catalyst's names) of an input column.

    `argument` is None for COUNT(*). `filter` is a boolean column: only rows where it is true count.
    """

    function: str
    argument: int | None
    spark_type: Any
    filter: int | None = None
    options: dict[str, str] = {}

    @property
    def type(self) -> pa.DataType:
        return types.from_spark(self.spark_type)


class Combine(Node, frozen=True, tag="combine"):
    """The first half of an aggregation, before the exchange: what linear aggregates add up, per group.

    Its rows start with the group's columns; the `Aggregate` after it has the same `keys` and `functions`.
    `spark_schema` is that of its input; what it emits is known to `operators.aggregate` alone.
    """

    keys: tuple[int, ...]
    functions: tuple[AggregateCall, ...]


class Aggregate(Node, frozen=True, tag="aggregate"):
    """One row per group: the group's columns, then the value of each function.

    Input is a `Combine`, through an `Exchange` by the leading key columns unless the rows are already spread
    so. Without keys there is one group, which has a row even when nothing went in.
    `input_schema` is the schema before the `Combine`, to which keys and functions refer.
    """

    keys: tuple[int, ...]
    functions: tuple[AggregateCall, ...]
    input_schema: Any
    salt: int = 0


class Distinct(Node, frozen=True, tag="distinct"):
    """Each row that is there at all, once. The input must be spread by all columns."""

    salt: int = 0


class View(Node, frozen=True, tag="view"):
    """A view: keeps its rows, and its change is what a step puts out."""

    name: str
    epoch: int = 0

    shared = True


AnyNode = (
    Source
    | Select
    | SparkSelect
    | Union
    | Negate
    | Exchange
    | Arrange
    | Join
    | Combine
    | Aggregate
    | Distinct
    | View
)
