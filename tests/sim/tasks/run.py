"""One seed in the world of tasks, from an empty store to a verdict."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from msgspec.structs import replace

from sim.checks import Breach
from sim.network import SimBackend
from sim.plan import Trouble
from sim.run import EPOCH_MS, LEADER_WITHIN_S, Simulation, Verdict, quiet_logs
from sim.tasks.checks import Recorder, TaskChecks, TaskServer
from sim.tasks.client import SimClient
from sim.tasks.node import MAXTHREADS, TaskNode
from sim.world import SimLoop
from tidemill.store import Document
from tidemill.tasks import execution, queue, retention
from tidemill.tasks.limits import NODE_LIMITS
from tidemill.tasks.policy import Policy
from tidemill.tasks.queue import Queue

MACHINES = 4
CLIENTS = 2

LEAVES = 0.3
"""The share of crashes before which a node has some seconds to say goodbye."""
HAUNTS = 0.5
"""The share of the others in which the old process only stands still, and goes on beside its successor."""

ENDED_WITHIN_S = 180.0
LET_GO_WITHIN_S = 30.0

LIMITS = {"node1": 1, "node2": 6}
"""What people have set for nodes; others go by their own settings."""

KEEP_S = 25.0
"""Longer than any request is under way."""

OFTEN = Policy(attempts=3, crashes=4, backoff_s=0.5)
QUEUES = [
    Queue(name="narrow", plugin="any", threads=2, policy=OFTEN),
    Queue(
        name="wide",
        plugin="any",
        sort="lifo",
        keep_s=KEEP_S,
        policy=Policy(crashes=2, backoff_s=0.2, timeout_s=6.0),
    ),
    Queue(name="late", plugin="any", threads=3, policy=Policy(attempts=2, backoff_s=1.0, orphans="mark")),
]


class TaskSimulation(Simulation):
    """Machines that run tasks, and clients; the types are for planted bugs."""

    def __init__(
        self,
        seed: int,
        *,
        node_type: type[TaskNode] = TaskNode,
        backend_type: type[SimBackend] = SimBackend,
    ) -> None:
        super().__init__(seed, node_type=node_type, backend_type=backend_type)
        clocks = self.plan.clocks[:MACHINES]
        troubles = [replace(trouble, node=trouble.node % len(clocks)) for trouble in self.plan.troubles]
        self.plan = replace(self.plan, clocks=clocks, troubles=troubles)
        self.world.after_event.clear()
        server = TaskServer(lambda: EPOCH_MS + int(self.world.now * 1000))
        queues = {one.name: one for one in QUEUES}
        self.server = server
        self.tasks = TaskChecks(self.world, server, queues, lambda node: LIMITS.get(node, MAXTHREADS))
        self.checks = self.tasks
        self.clients: list[SimClient] = []
        self._task_node = node_type

    def run(self) -> Verdict:
        with coarse_times():
            verdict = super().run()
        for client in self.clients:
            client.loop.drain()
        return replace(verdict, in_vain=self.tasks.in_vain())

    def _live(self) -> None:
        for node, maxthreads in LIMITS.items():
            limit = Document(node, {"maxthreads": maxthreads}, self.server.draw())
            self.server.put(NODE_LIMITS, limit, 0)
        for at in range(len(self.plan.clocks)):
            self.nodes.append(self._make_node(at))
            self.nodes[at].boot()
        for at in range(CLIENTS):
            self.clients.append(self._make_client(at))
        for trouble in self.plan.troubles:
            self.world.after(trouble.at, partial(self._strike, trouble))
        self.world.run_until(self.plan.quiet_at)
        self._expect(LEADER_WITHIN_S, self._has_leader, "no leader after the troubles ended")
        self._expect(ENDED_WITHIN_S, self._all_ended, "tasks or clients are not done")
        self._expect(LET_GO_WITHIN_S, lambda: not self.tasks.in_hands(), "nodes hold tasks that have ended")
        self.tasks.check_lost()
        self._raise_failures()

    def _expect(self, within_s: float, done: Callable[[], bool], what: str) -> None:
        try:
            super()._expect(within_s, done, what)
        except Breach as error:
            self._raise_failures()
            raise Breach(f"{error}: {self.tasks.unfinished()}") from None

    def _raise_failures(self) -> None:
        super()._raise_failures()
        for client in self.clients:
            for task in client.loop.tasks:
                if task.done() and not task.cancelled() and task.exception() is not None:
                    raise Breach(f"{client.loop.name} failed: {task.exception()!r}")

    def _has_leader(self) -> bool:
        return any(node.belief() is not None for node in self.tasks.nodes)

    def _all_ended(self) -> bool:
        return all(client.done for client in self.clients) and not self.tasks.unfinished()

    def _make_node(self, at: int) -> TaskNode:
        offset, rate = self.plan.clocks[at]
        loop = SimLoop(self.world, f"node{at}", offset + 100.0, rate)  # type: ignore[abstract]
        node = self._task_node(f"node{at}", loop, lambda: self._connect_as(loop, node.token), self.tasks)
        return node

    def _make_client(self, at: int) -> SimClient:
        loop = SimLoop(self.world, f"client{at}", 50.0, self.world.random.uniform(0.9, 1.1))  # type: ignore[abstract]
        count = self.plan.tasks // CLIENTS + at
        self.tasks.clients.add(loop.name)
        client = SimClient(loop, lambda: self._connect_as(loop, loop.name), self.tasks, QUEUES, count)
        client.boot()
        return client

    def _connect_as(self, loop: SimLoop, who: str) -> SimBackend:
        return self._backend_type(self.world, loop, self.server, self.weather, Recorder(self.tasks, who))

    def _crash(self, trouble: Trouble) -> None:
        node = self.nodes[trouble.node]
        chance = self.world.random.random()
        if not node.loop.lives or not isinstance(node, TaskNode):
            super()._crash(trouble)
        elif chance < LEAVES:
            self.world.note(node.name, "leaves")
            node.loop.create_task(node.leave())
            self.world.after(1.0 + 10.0 * chance, lambda: super(TaskSimulation, self)._crash(trouble))
        elif chance < LEAVES + (1 - LEAVES) * HAUNTS:
            self._haunt(trouble, node)
        else:
            super()._crash(trouble)

    def _haunt(self, trouble: Trouble, old: TaskNode) -> None:
        """A second process takes the place of the first, which stands still, and then goes on."""
        self.world.note(old.name, "stands still, and gets a successor")
        old.loop.paused = True
        self.dead.append(old)
        self.nodes[trouble.node] = self._make_node(trouble.node)
        self.nodes[trouble.node].boot()
        self.world.after(trouble.seconds, old.loop.resume)


@contextmanager
def coarse_times() -> Iterator[None]:
    """What nodes do many times a second would be most of the time of a run, and what they do once a minute
    would never happen."""
    before = execution.SWEEP_S, execution.GAP_S, retention.LOOK_S, queue.LEAST_KEEP_S
    execution.SWEEP_S, execution.GAP_S, retention.LOOK_S, queue.LEAST_KEEP_S = 0.4, 0.3, 5.0, KEEP_S
    try:
        yield
    finally:
        execution.SWEEP_S, execution.GAP_S, retention.LOOK_S, queue.LEAST_KEEP_S = before


def simulate_tasks(seed: int) -> Verdict:
    """Run one seed with the product's own code."""
    with quiet_logs():
        return TaskSimulation(seed).run()
