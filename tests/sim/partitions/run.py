"""One seed in the world of partitions, from an empty store to a verdict."""

from msgspec.structs import replace

from sim.checks import Breach
from sim.network import SimBackend
from sim.partitions.checks import PartitionChecks, Tasks
from sim.partitions.node import PartitionNode
from sim.plan import Plan, Trouble
from sim.run import DONE_WITHIN_S, LEADER_WITHIN_S, Simulation, Verdict, quiet_logs
from sim.world import SimLoop
from tidemill.cluster import PARTITIONS
from tidemill.cluster.partitioner import PLANS
from tidemill.cluster.partitions import outstanding
from tidemill.store import Document

MACHINES = 4

LEAVES = 0.3
"""The share of crashes before which a node has a second to say goodbye."""

HANDLING = "partition"

SETTLED_S = 8.0
STOPPED_WITHIN_S = 60.0
TAKEN_WITHIN_S = 30.0


class PartitionSimulation(Simulation):
    """Machines that share partitions; the types are for planted bugs."""

    def __init__(
        self,
        seed: int,
        *,
        node_type: type[PartitionNode] = PartitionNode,
        backend_type: type[SimBackend] = SimBackend,
    ) -> None:
        super().__init__(seed, node_type=node_type, backend_type=backend_type)
        self.plan = _fewer(self.plan)
        self.world.after_event.clear()
        self.partitions = PartitionChecks(self.world, self.server)
        self.checks = self.partitions
        self.tasks = Tasks(self.plan.tasks)
        self._partition_node = node_type

    def _live(self) -> None:
        for at in range(len(self.plan.clocks)):
            self.nodes.append(self._make_node(at))
            self.nodes[at].boot()
        for trouble in self.plan.troubles:
            self.world.after(trouble.at, lambda trouble=trouble: self._strike(trouble))  # type: ignore[misc]
        self.world.run_until(self.plan.quiet_at)
        self._expect(LEADER_WITHIN_S, self._has_leader, "no leader after the troubles ended")
        self._expect(DONE_WITHIN_S, lambda: not self.tasks.left, "tasks were left undone")
        self.world.run_until(max(self.world.now, self.plan.quiet_at + SETTLED_S))
        self._expect(STOPPED_WITHIN_S, self._feeds_all, "the feed was not begun anew for the nodes there are")
        self._check_spread()
        self._raise_failures()

    def _raise_failures(self) -> None:
        """Handlers may raise, and nothing else."""
        for node in self.nodes + self.dead:
            node.loop.tasks = [task for task in node.loop.tasks if task.get_name() != HANDLING]
        super()._raise_failures()

    def _feeds_all(self) -> bool:
        plan = self.server.table(PLANS).get("feed")
        tokens = {node.token for node in self.nodes}
        return plan is not None and set(plan.body["nodes"]) == tokens and self._all_held("feed")

    def _all_held(self, handler: str) -> bool:
        return self.partitions.unheld(handler) == 0

    def _check_spread(self) -> None:
        """So many that they even out what was uneven before, even if one node has the whole feed."""
        for at in range(2 * len(self.nodes) ** 2 + 1):
            late = Document(f"late/{at:03d}", outstanding("late", b""), self.server.draw())
            self.server.put(PARTITIONS, late, 0)
        self.server.announce([PARTITIONS.name])
        self._expect(TAKEN_WITHIN_S, lambda: self._all_held("late"), "partitions were left untaken")
        loads = [self.partitions.holders()[node.token] for node in self.nodes]
        if max(loads) - min(loads) > 1:
            raise Breach(f"partitions are spread unevenly: {loads}")

    def _make_node(self, at: int) -> PartitionNode:
        offset, rate = self.plan.clocks[at]
        loop = SimLoop(self.world, f"node{at}", offset + 100.0, rate)  # type: ignore[abstract]
        node = self._partition_node(f"node{at}", loop, lambda: self._connect(loop), self.partitions)
        node.tasks = self.tasks
        return node

    def _crash(self, trouble: Trouble) -> None:
        node = self.nodes[trouble.node]
        if self.world.random.random() < LEAVES and isinstance(node, PartitionNode) and node.loop.lives:
            self.world.note(node.name, "leaves")
            node.loop.create_task(node.leave())
            self.world.after(1.0, lambda: super(PartitionSimulation, self)._crash(trouble))
        else:
            super()._crash(trouble)


def _fewer(plan: Plan) -> Plan:
    """The same troubles on fewer machines: everyone looks at what everyone does, which takes its time."""
    clocks = plan.clocks[:MACHINES]
    troubles = [replace(trouble, node=trouble.node % len(clocks)) for trouble in plan.troubles]
    return replace(plan, clocks=clocks, troubles=troubles)


def simulate_partitions(seed: int) -> Verdict:
    """Run one seed with the product's own code."""
    with quiet_logs():
        return PartitionSimulation(seed).run()
