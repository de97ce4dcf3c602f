"""The operators of a circuit, as data: what each computes, from which nodes, to which columns.

A node names its inputs by their position in the circuit, which lists every node after its inputs. What a
node does lies in `tidemill.pipeline.operators`, one file for each of these classes.
"""

from functools import cached_property
from typing import Any, ClassVar
from typing import Literal as OneOf

import msgspec
import pyarrow as pa

from tidemill.pipeline import types
from tidemill.pipeline.plan.clock import Clock
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


class TimedSource(Source, frozen=True, tag="timed_source"):
    """A table whose rows come roughly in the order of a column, `time`: at most `lateness_us` behind.

    Its *waterline* is the highest time that earlier steps brought, less that. What an append says of rows
    below the waterline is dropped and counted, so what was computed of them alone stays as it is.
    """

    time: int = 0
    lateness_us: int = 0

    @property
    def label(self) -> str:
        """Under which its highest time is known."""
        return f"{self.table}#{self.epoch}"


class Select(Node, frozen=True, tag="select"):
    """Of the rows where `where` is true, the values of `columns`."""

    where: Column | Literal | Call | None
    columns: tuple[Column | Literal | Call, ...]


class SparkSelect(Node, frozen=True, tag="spark_select"):
    """As `Select`, in Spark: SQL texts over columns named c0, c1, … For functions that are not proved."""

    where: str | None
    columns: tuple[str, ...]


class Constant(Node, frozen=True, tag="constant"):
    """Rows that never change, there from the first step on and spread by all columns.

    `rows` is a Z-set as bytes (`zset.to_ipc`).
    """

    rows: bytes


class Generate(Node, frozen=True, tag="generate"):
    """For each element of the input's last column, an array or map, a row: the other columns, the element.

    `function` is Catalyst's name: Explode gives the element, or key and value; PosExplode its position
    before, from 0; Inline the fields of a struct. With `outer`, a row without elements comes once, with NULL.
    """

    function: str
    outer: bool


class Replicate(Node, frozen=True, tag="replicate"):
    """The rows of the input, each as often as its last column says; without that column."""


class Expand(Node, frozen=True, tag="expand"):
    """Each row of the input once for each projection, as the columns and constants that it names."""

    projections: tuple[tuple[Column | Literal, ...], ...]


class Union(Node, frozen=True, tag="union"):
    """The rows of all inputs, with their weights."""


class Negate(Node, frozen=True, tag="negate"):
    """The rows of the input with the opposite weights."""


class Exchange(Node, frozen=True, tag="exchange"):
    """The same rows, each at the pipeline worker that owns the shard of its `key`."""

    key: tuple[int, ...]


class Arrange(Node, frozen=True, tag="arrange"):
    """Passes its input on and keeps the running sum of it, to be looked up by `key`.

    The input must be spread by `key`. The rows of a key are in the `order` of these columns. With `salt`, two
    nodes that compute the same keep separate state.
    """

    key: tuple[int, ...]
    salt: int = 0
    order: tuple[int, ...] = ()

    shared = True


class JoinBound(msgspec.Struct, frozen=True):
    """What a join's condition asks for: a column of the left compared (<, <=, >, >=) with one of the right.

    Where a side is arranged in the order of its column, only rows within the bound are looked at.
    """

    left: int
    compare: str
    right: int


class Join(Node, frozen=True, tag="join"):
    """Pairs of rows whose keys are equal, where `condition` (over the columns of both) is true.

    Both inputs are arranged (`Arrange` or `Source`) by their join keys, in the same order. A NULL in a key
    equals nothing. Columns: those of the left, then those of the right.
    """

    condition: Column | Literal | Call | None
    bounds: tuple[JoinBound, ...] = ()


class Mark(Node, frozen=True, tag="mark"):
    """The rows of the left, each with whether the right has its key: the left's columns, then a boolean.

    The left is arranged (`Arrange` or `Source`) by its key; the right has just the columns of the key, in the
    same order, and is spread by them. A NULL in a key equals nothing, unless `null_safe`.
    """

    null_safe: bool = False
    salt: int = 0


class Label(Node, frozen=True, tag="label"):
    """The rows with a further column, the label of a shard: spread by it, they lie on that shard.

    It is the shard of the row's `key`; without a key, each row comes once for every shard.
    """

    key: tuple[int, ...] | None


class AggregateCall(msgspec.Struct, frozen=True):
    """One aggregate, by Catalyst's name (Count, Sum, MaxBy, …), of input columns.

    `argument` is None for COUNT(*); `further` are the arguments after the first, each a column or a constant.
    `filter` is a boolean column: only rows where it is true count.
    """

    function: str
    argument: int | None
    spark_type: Any
    filter: int | None = None
    options: dict[str, str] = {}
    further: tuple[int | Literal, ...] | msgspec.UnsetType = msgspec.UNSET
    """Not written where there are none: fingerprints of calls with one argument do without."""

    @property
    def type(self) -> pa.DataType:
        return types.from_spark(self.spark_type)

    @property
    def columns(self) -> tuple[int, ...]:
        """The arguments that are columns, in their order."""
        first = () if self.argument is None else (self.argument,)
        return first + tuple(one for one in self.further or () if isinstance(one, int))

    @property
    def constants(self) -> tuple[Literal, ...]:
        """The arguments that are not."""
        return tuple(one for one in self.further or () if isinstance(one, Literal))


class AtMostOne(Node, frozen=True, tag="at_most_one"):
    """The rows of the input, which must be spread by `key`. More than one with the same key is an error."""

    salt: int = 0
    key: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    """Not written where there is none."""


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


class LoopInput(Node, frozen=True, tag="loop_input"):
    """In the body of a loop: the loop's input of that number, the same in every iteration."""

    number: int


class LoopVariable(Node, frozen=True, tag="loop_variable"):
    """In the body of a loop: the rows of the body in the iteration before; none in the first."""


class Loop(Node, frozen=True, tag="loop"):
    """The fixed point of `body`, a circuit of its own whose last node is the result.

    All inputs are spread by the empty key. After `limit` iterations without an end the step is aborted.
    """

    body: "tuple[AnyNode, ...]"
    limit: int
    salt: int = 0


Ranking = OneOf["row_number", "rank", "dense_rank"]


class OrderColumn(msgspec.Struct, frozen=True):
    """A column that orders rows, and which way. NaN is above all numbers."""

    column: int
    descending: bool = False
    nulls_last: bool = False


class TopK(Node, frozen=True, tag="top_k"):
    """Of each group of rows, those whose number in the order is at most `count`, without the first `offset`.

    Groups are rows that are equal in `keys`, by which the input must be spread. `ranking` says how rows are
    numbered: row_number tells equals apart by the whole row, rank and dense_rank number them together.
    """

    keys: tuple[int, ...]
    order: tuple[OrderColumn, ...]
    ranking: Ranking
    count: int
    offset: int = 0
    salt: int = 0


class Bound(msgspec.Struct, frozen=True):
    """One end of a frame: that of the partition, so many `rows` from the current one, its `peers` (the rows
    equal to it in the order), or the `value` in another column."""

    kind: OneOf["unbounded", "rows", "peers", "value"] = "unbounded"
    at: int = 0
    """The number of rows, negative for those before; or the column."""


class WindowCall(msgspec.Struct, frozen=True):
    """A function, by Catalyst's name, over the rows of a partition from one bound to the other."""

    call: AggregateCall
    low: Bound = Bound()
    high: Bound = Bound()


class Window(Node, frozen=True, tag="window"):
    """Each row with the values of functions over the rows that are equal in `keys`, in an order.

    The input must be spread by the keys. Rows that are equal in the order go by the whole row where it
    matters. Columns: those of the input, then the values.
    """

    keys: tuple[int, ...]
    order: tuple[OrderColumn, ...]
    functions: tuple[WindowCall, ...]
    salt: int = 0


class Sessions(Node, frozen=True, tag="sessions"):
    """Each row with the session it is in: `start` and `end`, which say what the row spans, become those of
    all rows with its `keys` that overlap or touch it, directly or through others.

    The input must be spread by `keys`, and have no NULL in `start` and `end`.
    """

    keys: tuple[int, ...]
    start: int
    end: int
    salt: int = 0


class TemporalCondition(msgspec.Struct, frozen=True):
    """Compares a column (>, >=, <, <= or =) with a moment that follows the step's clock. No NULL passes."""

    column: int
    compare: str
    clock: Clock


class Temporal(Node, frozen=True, tag="temporal"):
    """The rows for which all conditions are true at the step's clock: they come and go as it moves on."""

    conditions: tuple[TemporalCondition, ...]
    salt: int = 0


class View(Node, frozen=True, tag="view"):
    """A view: keeps its rows, and its change is what a step puts out."""

    name: str
    epoch: int = 0

    shared = True


AnyNode = (
    Source
    | TimedSource
    | Select
    | SparkSelect
    | Constant
    | Generate
    | Replicate
    | Expand
    | Union
    | Negate
    | Exchange
    | Arrange
    | Join
    | Mark
    | Label
    | AtMostOne
    | Combine
    | Aggregate
    | Distinct
    | LoopInput
    | LoopVariable
    | Loop
    | TopK
    | Window
    | Sessions
    | Temporal
    | View
)
