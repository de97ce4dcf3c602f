"""Queries as Spark understood them: a small tree of relations, with typed expressions over positions.

`catalyst` makes it of Spark's optimized plan, `lower` makes operators of it. Each relation has the schema
that Spark gave it; the expressions of a relation read the columns of its input by position.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidemill.pipeline.errors import Place
from tidemill.pipeline.plan.clock import Clock
from tidemill.pipeline.plan.expression import Column, Tree
from tidemill.pipeline.plan.node import Ranking


@dataclass(frozen=True, slots=True)
class Scalar:
    """An expression over the columns of a relation's input."""

    tree: Tree
    unproved: str | None
    """Which function keeps us from computing it ourselves; None if we can."""
    text: Callable[[], str] = field(compare=False)
    """The expression in Spark SQL over columns c0, c1, …; raises `Refused` if it cannot be written so."""

    @property
    def sql(self) -> str:
        return f"c{self.tree.index}" if isinstance(self.tree, Column) else self.text()

    @property
    def reasoned_sql(self) -> str:
        """The text, with what keeps us from computing it as a comment."""
        return f"{self.sql} /* not proved: {self.unproved.split('(')[0]} */" if self.unproved else self.sql


RANKINGS: dict[str, Ranking] = {"RowNumber": "row_number", "Rank": "rank", "DenseRank": "dense_rank"}
"""How rows are numbered, by Catalyst's name."""

Keys = tuple[tuple[Scalar, Scalar], ...]
"""What must be equal: in each pair, an expression over the left and one over the right."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What of a query something comes from: its words, and where they stand if that is known."""

    text: str = ""
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    schema: Any
    """In Spark's JSON form."""
    origin: Origin

    @property
    def children(self) -> "tuple[AnyRelation, ...]":
        """The relations that it is made of."""
        return ()


@dataclass(frozen=True, slots=True)
class Leaf(Relation):
    """A table or view of the pipeline."""

    name: str


@dataclass(frozen=True, slots=True)
class Project(Relation):
    child: "AnyRelation"
    columns: tuple[Scalar, ...]

    @property
    def children(self) -> "tuple[AnyRelation, ...]":
        return (self.child,)


@dataclass(frozen=True, slots=True)
class Filter(Relation):
    child: "AnyRelation"
    condition: Scalar

    @property
    def children(self) -> "tuple[AnyRelation, ...]":
        return (self.child,)


@dataclass(frozen=True, slots=True)
class Join(Relation):
    """Pairs of rows with equal keys, where `condition` is true.

    `kind` is Catalyst's name: Inner, Cross, LeftOuter, … A NULL equals nothing, a NaN equals NaN; but in the
    keys that are `null_aware` a NULL equals anything. With those, there is no condition.
    """

    kind: str
    left: "AnyRelation"
    right: "AnyRelation"
    keys: Keys
    condition: Scalar | None
    null_aware: Keys = ()

    @property
    def children(self) -> "tuple[AnyRelation, ...]":
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class AtMostOne(Relation):
    """The child's rows, of which there may be at most one, or one for each value of `keys`."""

    child: "AnyRelation"
    keys: tuple[Scalar, ...] = ()

    @property
    def children(self) -> "tuple[AnyRelation, ...]":
        return (self.child,)


@dataclass(frozen=True, slots=True)
class Function:
    """An aggregate function, by Catalyst's name, with arguments and filter over the rows of its input."""

    name: str
    arguments: tuple[Scalar, ...]
    filter: Scalar | None
    spark_type: Any
    options: dict[str, str]
    text: str = field(compare=False)
    """How Spark SQL writes it, for people."""
    place: Place | None = field(default=None, compare=False)
    written: str = field(default="", compare=False)
    """How the user wrote it, if that is known: Spark makes another function of some."""


@dataclass(frozen=True, slots=True)
class Aggregate(Relation):
    """One row per group; the results read the keys, then the values of the functions."""

    child: "AnyRelation"
    keys: tuple[Scalar, ...]
    functions: tuple[Function, ...]
    results: tuple[Scalar, ...]
    group_schema: Any
    """Of the keys and the functions."""

    @property
    def children(self) -> "tuple[AnyRelation, ...]":
        return (self.child,)


@dataclass(frozen=True, slots=True)
class Expand(Relation):
    """Each row several times, once for each of the projections, which say what its columns are then."""

    child: "AnyRelation"
    projections: tuple[tuple[Scalar, ...], ...]

    @property
    def children(self) -> "tuple[AnyRelation, ...]":
        return (self.child,)


@dataclass(frozen=True, slots=True)
class Union(Relation):
    """All rows of several relations."""

    several: tuple["AnyRelation", ...]

    @property
    def children(self) -> "tuple[AnyRelation, ...]":
        return self.several


@dataclass(frozen=True, slots=True)
class Constant(Relation):
    """Rows that the query states itself."""

    rows: bytes
    """A Z-set as bytes (`zset.to_ipc`)."""


@dataclass(frozen=True, slots=True)
class Generate(Relation):
    """For each element of a collection a row: the columns of the input that are `carried`, and the element.

    `function` is Catalyst's name: Explode, PosExplode or Inline. With `outer`, a row of which it makes none
    comes once, with NULL.
    """

    child: "AnyRelation"
    carried: tuple[int, ...]
    function: str
    collection: Scalar
    outer: bool

    @property
    def children(self) -> "tuple[AnyRelation, ...]":
        return (self.child,)


@dataclass(frozen=True, slots=True)
class Replicate(Relation):
    """Each row as often as `count` says, as these columns."""

    child: "AnyRelation"
    columns: tuple[Scalar, ...]
    count: Scalar

    @property
    def children(self) -> "tuple[AnyRelation, ...]":
        return (self.child,)


@dataclass(frozen=True, slots=True)
class Again(Relation):
    """Inside a loop: the rows of the loop in the iteration before."""

    loop: str


@dataclass(frozen=True, slots=True)
class Loop(Relation):
    """The rows that `body` has once it no longer changes, when it starts with none; `Again` refers to it.

    It is an error if that takes more than `limit` iterations.
    """

    name: str
    body: "AnyRelation"
    limit: int

    @property
    def children(self) -> "tuple[AnyRelation, ...]":
        return (self.body,)


@dataclass(frozen=True, slots=True)
class Sessions(Relation):
    """The child's rows, whose column `session` (start and end) becomes that of the session they are in.

    Rows with equal `keys` whose spans overlap or touch, directly or through others, are one session.
    """

    child: "AnyRelation"
    keys: tuple[Scalar, ...]
    session: int

    @property
    def children(self) -> "tuple[AnyRelation, ...]":
        return (self.child,)


@dataclass(frozen=True, slots=True)
class Order:
    """A part of an ORDER BY."""

    by: Scalar
    descending: bool
    nulls_last: bool


@dataclass(frozen=True, slots=True)
class TopK(Relation):
    """Of the child's rows with equal `keys`, those whose number in the order is at most `count`.

    `ranking` is how they are numbered. The first `offset` are left out.
    """

    child: "AnyRelation"
    keys: tuple[Scalar, ...]
    order: tuple[Order, ...]
    ranking: Ranking
    count: int
    offset: int = 0

    @property
    def children(self) -> "tuple[AnyRelation, ...]":
        return (self.child,)


@dataclass(frozen=True, slots=True)
class Edge:
    """One end of a frame: that of the partition if neither is said, else so many `rows` from the current
    one, or the rows up to a `value` of the order, or those equal to the current one (`peers`)."""

    rows: int | None = None
    value: Scalar | None = None
    peers: bool = False


@dataclass(frozen=True, slots=True)
class WindowFunction:
    """A function over the rows of a frame."""

    function: Function
    low: Edge
    high: Edge


@dataclass(frozen=True, slots=True)
class Window(Relation):
    """The child's rows, each with the values of functions over the rows with equal `keys`, in an order."""

    child: "AnyRelation"
    keys: tuple[Scalar, ...]
    order: tuple[Order, ...]
    functions: tuple[WindowFunction, ...]

    @property
    def children(self) -> "tuple[AnyRelation, ...]":
        return (self.child,)


@dataclass(frozen=True, slots=True)
class Temporal(Relation):
    """The child's rows for which all conditions are true: `compare` an operand with a clock."""

    child: "AnyRelation"
    conditions: tuple[tuple[Scalar, str, Clock], ...]

    @property
    def children(self) -> "tuple[AnyRelation, ...]":
        return (self.child,)


AnyRelation = (
    Leaf
    | Again
    | Loop
    | Constant
    | Generate
    | Replicate
    | Project
    | Filter
    | Join
    | AtMostOne
    | Aggregate
    | Expand
    | Union
    | Sessions
    | Temporal
    | TopK
    | Window
)
