"""What a query is planned against: the tables and views that are there, and the circuit so far."""

from dataclasses import dataclass, field
from typing import Any

from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.plan.node import Source, TimedSource
from tidemill.sql.relation import Origin


@dataclass(frozen=True, slots=True)
class Table:
    """A table. Without a primary key its rows are spread by what the first view that uses it asks for."""

    schema: Any
    """In Spark's JSON form; the columns of the primary key are not nullable."""
    key: tuple[int, ...] = ()
    shard_key: tuple[int, ...] | None = None
    """None until it is chosen; with a primary key, the same columns."""
    epoch: int = 0
    position: int | None = None
    """Of its source in the circuit, once a view uses it."""
    lateness: tuple[int, int] | None = None
    """The column of time, and by how many microseconds rows may be behind the highest."""

    def source(self, name: str, shard_key: tuple[int, ...]) -> Source:
        """The node that brings in its rows, spread by these columns."""
        if self.lateness is None:
            return Source((), self.schema, name, self.key, shard_key, self.epoch)
        return TimedSource((), self.schema, name, self.key, shard_key, self.epoch, *self.lateness)


@dataclass(frozen=True, slots=True)
class View:
    schema: Any
    position: int
    since: int = 0
    """The first step that may have changed it: what an earlier view of its name put out is not its own."""
    query: str = ""
    """As it was written; empty for a view that was made of a frame."""
    levels: int = 0
    """Of a view that refers to itself, how many iterations it may take; of any other, 0."""


@dataclass(frozen=True, slots=True)
class Catalog:
    tables: dict[str, Table] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    circuit: Circuit = field(default_factory=Circuit)
    origins: dict[str, tuple[Origin, ...]] = field(default_factory=dict)
    """By the fingerprint of a node, what of its query it comes from."""
    unfilled: frozenset[str] = frozenset()
    """The fingerprints of nodes that have not run, and will not before the query is there: shared."""

    def entry(self, name: str) -> Table | View:
        """Of a name that is there."""
        return self.tables.get(name) or self.views[name]


@dataclass(frozen=True, slots=True)
class Addition:
    """What a new view adds: the circuit with its nodes appended, and what was decided on the way."""

    circuit: Circuit
    position: int
    """Of the view."""
    schema: Any
    shard_keys: dict[str, tuple[int, ...]]
    """Of the tables whose shard key this view has chosen."""
    sources: dict[str, int]
    """Positions of the sources of the tables that no view used before."""
    origins: dict[str, tuple[Origin, ...]]
    """By the fingerprint of a new node, what of the query it comes from."""
