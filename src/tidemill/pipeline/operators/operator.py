"""What an operator is: a kernel over Z-sets, the state it declares, and what a change costs it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from tidemill.pipeline.plan.node import Node
from tidemill.pipeline.state.spec import Part, StateSpec
from tidemill.pipeline.zset import ZSet

Flow = tuple[ZSet, ...]
"""What goes from node to node in a round: one Z-set per port. Almost every node has a single port."""


@dataclass(frozen=True, slots=True)
class Port:
    """The columns and the number of weights of one Z-set in a flow."""

    schema: pa.Schema
    width: int | None = None

    def empty(self) -> ZSet:
        return ZSet.empty(self.schema, self.width)


@dataclass(frozen=True, slots=True)
class Moment:
    """What a step is told beside its input, the same whenever it is run again: its number and its clock.

    `since_s` was the clock of the step before; what there is was true then. `highest` are the highest times
    that earlier steps brought, in microseconds, by the label of their source.
    """

    step: int
    clock_s: float
    since_s: float = 0.0
    highest: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Notes:
    """What the sources tell of a step: the rows that they dropped as late, by table; the highest times that
    they saw, by label."""

    late: dict[str, int] = field(default_factory=dict)
    highest: dict[str, int] = field(default_factory=dict)

    def drop(self, table: str, rows: int) -> None:
        self.late[table] = self.late.get(table, 0) + rows

    def reach(self, label: str, time_us: int) -> None:
        self.highest[label] = max(time_us, self.highest.get(label, time_us))


class Spines(Protocol):
    """Spines by number. The worker opens each when it is first asked for: most steps touch few."""

    def __getitem__(self, number: int, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class Access:
    """What an operator may reach during a round.

    A `fresh` operator runs for the first
    time: its state is empty and its inputs are complete, not changes. `last_round` is false while more input
    of the same step is to come. `part` is what its pipeline worker owns.
    """

    spines: Spines
    input_spines: Spines
    fresh: bool
    last_round: bool
    moment: Moment
    part: Part = field(default_factory=Part)
    notes: Notes = field(default_factory=Notes)

    def own(self, slot: int = 0) -> Any:
        """The spine of its state in that slot."""
        return self.spines[slot]

    def of(self, position: int) -> Any:
        """The spine of the arranged input at that position."""
        return self.input_spines[position]


class Operator(ABC):
    """One node at work on some shards. Made once, stepped for every round; keeps nothing but its spines.

    A step is deterministic: the same state and input give the same output. Data that cannot be computed
    raises `StepAborted`; whatever was added to the spines is then thrown away by the caller.
    """

    cost: ClassVar[str]
    """How work follows the change, for `explain`: "O(change)"."""

    def __init__(self, node: Node, inputs: Sequence[Node]) -> None:
        self.node = node
        self.inputs = inputs

    def states(self) -> tuple[StateSpec, ...]:
        """The states it keeps, by slot. Their names are suffixes of the operator's own."""
        return ()

    def ports(self) -> tuple[Port, ...]:
        """What its output is made of."""
        return (Port(self.node.schema),)

    @abstractmethod
    def step(self, inputs: Sequence[Flow], access: Access) -> Flow:
        """The change of its output that follows from the change of its inputs."""
