"""Queries as Spark understood them: a small tree of relations, with typed expressions over positions.

`catalyst` makes it of Spark's optimized plan, `lower` makes operators of it. Each relation has the schema
that Spark gave it; the expressions of a relation read the columns of its input by position.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidemill.pipeline.plan.expression import Column, Tree


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


@dataclass(frozen=True, slots=True)
class Relation:
    schema: Any
    """In Spark's JSON form."""
    place: str
    """Where in the query it comes from, as the start of a message; empty if that is not known."""

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
    """Pairs of rows with equal keys (in pairs: of the left, of the right), where `condition` is true.

    `kind` is Catalyst's name: Inner, Cross, LeftOuter, … A NULL equals nothing, a NaN equals NaN.
    """

    kind: str
    left: "AnyRelation"
    right: "AnyRelation"
    keys: tuple[tuple[Scalar, Scalar], ...]
    condition: Scalar | None

    @property
    def children(self) -> "tuple[AnyRelation, ...]":
        return self.left, self.right


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
    place: str = field(default="", compare=False)
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


AnyRelation = Leaf | Constant | Generate | Replicate | Project | Filter | Join | Aggregate | Expand | Union
