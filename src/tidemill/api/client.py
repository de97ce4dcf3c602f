"""`tidemill.connect(url)`: a cluster as the code sees it that leads a piece of work.

cluster = tidemill.connect("postgresql://db/tidemill")
for node in cluster.idle_nodes():
    node.submit(run_input, "orders").on_failure_or_timeout(node.mark_dead)
"""

import asyncio
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from tidemill.api.asking import ask
from tidemill.api.executor import Executor, TaskFuture
from tidemill.api.line import StoreLine
from tidemill.api.shared import SharedContext
from tidemill.cluster import LEASES, Node, list_nodes
from tidemill.store import Store, eq
from tidemill.tasks.errors import BadTask
from tidemill.tasks.idle import Idle, check_node, node_queue, read_idle
from tidemill.tasks.limits import NODE_LIMITS, change_limits
from tidemill.tasks.registry import Registry
from tidemill.tasks.status import QUEUED
from tidemill.tasks.task import TASKS
from tidemill.tasks.waking import wait_any, watching

P = ParamSpec("P")
T = TypeVar("T")

LOOK_S = 5.0
"""How often to look for idle nodes without having been told: that one falls silent changes nothing."""
CALM_S = 0.02


class NodeHandle:
    """One process of the cluster, as it was when it was found idle, with so many slots `free`.

    It can be pickled: what arrives connects to the same store when it is used.
    """

    def __init__(self, client: "Client | str", found: Idle) -> None:
        self.name = found.name
        self.token = found.token
        self.address = found.address
        self.slots = found.slots
        self.free = found.free
        self._found = found
        self._client = client

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> TaskFuture[T]:
        """Have `fn(*args, **kwargs)` called on this node alone. The task is durable on return.

        Raises `NodeGone` when no process of that name is alive, or it was marked as dead. When the node is
        lost while it runs, the task ends as orphaned. One that it has not begun waits for a node of that
        name, or until the node is marked as dead: give it a time limit.
        """
        if isinstance(self._client, str):
            self._client = connect(self._client)
        return self._client._submit_to(self.name, fn, args, kwargs)

    def mark_dead(self) -> None:
        """Let this node take no more tasks, and be idle to nobody, until another process has its name.

        What waits for it alone is cancelled; what runs there goes on. `tidemill node list` shows it as dead,
        and `tidemill node undrain` takes it back.
        """
        url = self._client if isinstance(self._client, str) else self._client.url
        ask(url, self._mark)

    async def _mark(self, store: Store) -> None:
        await change_limits(store, self.name, dead=self.token)
        queue = node_queue(self.name).name
        await Registry(store).cancel_all(eq("queue", queue), eq("status", QUEUED))

    def __reduce__(self) -> tuple[Any, ...]:
        url = self._client if isinstance(self._client, str) else self._client.url
        return NodeHandle, (url, self._found)

    def __repr__(self) -> str:
        return f"<node {self.name}: {self.free} of {self.slots} slots free>"


class Client(Executor):
    """An executor that also knows the nodes. Everything but `submit`, `map` and `future` needs a store."""

    def idle_nodes(self, wait: bool = True, timeout_s: float | None = None) -> list[NodeHandle]:
        """The nodes that could take a task now: alive, with slots free, not draining, not marked as dead.

        With `wait`, blocks until there is one, for `timeout_s` at most; then there may be none.
        """
        self._check()
        found = self._run(self._idle(self._store(), timeout_s if wait else 0.0))
        return [NodeHandle(self, idle) for idle in found]

    def nodes(self) -> list[Node]:
        """All nodes in the list, those that fell silent included."""
        return self._run(list_nodes(self._store()))

    def context(self, name: str | None = None) -> SharedContext:
        """The shared context of that name; without one, that which `tidemill.current().context` is to the
        functions that this client submits."""
        self._store()
        return SharedContext(self.url, name or self._context)

    async def _idle(self, store: Store, timeout_s: float | None) -> list[Idle]:
        try:
            async with asyncio.timeout(timeout_s), watching(store, TASKS, LEASES, NODE_LIMITS) as watches:
                while not (found := await read_idle(store)):
                    await wait_any(watches, LOOK_S)
                    await asyncio.sleep(CALM_S)
                return found
        except TimeoutError:
            return await read_idle(store)

    def _submit_to(
        self, node: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> TaskFuture[Any]:
        self._check()
        queue = node_queue(node)
        self._run(check_node(self._store(), node))
        self._run(self._line.ensure_queue(queue))
        return self._submit(queue.name, fn, [(args, kwargs)])[0]

    def _store(self) -> Store:
        if not isinstance(self._line, StoreLine):
            raise BadTask(
                "nodes and contexts need the address of the cluster's store: "
                "through a node there are submit, map and future"
            )
        return self._line.store


def connect(
    url: str, *, queue: str = "functions", context: str = "default", token: str | None = None
) -> Client:
    """A client of the cluster whose store, or one of whose nodes, is at that address."""
    return Client(url, queue=queue, context=context, token=token)
