"""What the routes may ask of the node that serves them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tidemill.app.settings import Settings
from tidemill.cluster.figures import Alarm
from tidemill.store import Store
from tidemill.tasks.blobs import Shelves
from tidemill.tasks.registry import Registry
from tidemill.tasks.remote.dispatch import Dispatch
from tidemill.tasks.runner import Plugins


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster as this node sees it, from memory: `node` and `leader` are tokens."""

    node: str
    name: str
    leader: str | None
    term: int
    cas: int
    trusted: bool
    skew_ms: float


@dataclass(frozen=True, slots=True)
class NodeView:
    """One entry of the node list. `started` and `seen` are the store's milliseconds."""

    name: str
    token: str
    address: str
    slots: int
    release: str
    started: int
    seen: int
    alive: bool
    leader: bool
    plugins: tuple[str, ...] = ()
    broken: Mapping[str, str] = field(default_factory=dict)


class TaskContext(Protocol):
    """What a node has to do with tasks, as far as HTTP is concerned."""

    @property
    def registry(self) -> Registry: ...

    @property
    def shelves(self) -> Shelves: ...

    @property
    def plugins(self) -> Plugins: ...

    @property
    def dispatch(self) -> Dispatch: ...


class NodeContext(Protocol):
    """A node, as far as HTTP is concerned."""

    @property
    def settings(self) -> Settings: ...

    @property
    def store(self) -> Store: ...

    @property
    def tasking(self) -> TaskContext: ...

    def cluster(self) -> ClusterView:
        """Who leads, from memory: answers also while the store is away."""

    async def nodes(self) -> list[NodeView]:
        """The node list, from the store."""

    def problems(self) -> list[str]:
        """What keeps the node from being ready, in plain words; empty when it is."""

    def alarms(self) -> list[Alarm]:
        """What a person should look at, though the node may be ready all the same."""

    def metrics(self) -> Mapping[str, float]:
        """More gauges and counters by name; those that end in `_total` only grow."""
