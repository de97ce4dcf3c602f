"""One seed, from an empty store to a verdict."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from msgspec import Struct

from sim.checks import QUEUED, TASKS, Breach, Checks
from sim.network import SimBackend, Weather
from sim.node import SimNode
from sim.plan import Plan, Trouble, draw_plan
from sim.world import SimLoop, World
from tidemill.store.backends.memory import MemoryServer
from tidemill.store.document import Document

EPOCH_MS = 1_794_000_000_000
LEADER_WITHIN_S = 12.0
DONE_WITHIN_S = 120.0


class Verdict(Struct, frozen=True):
    """What a run came to. `breach` is None when everything held."""

    seed: int
    breach: str | None
    seconds: float
    acts: int
    writes: int
    troubles: int
    trace: list[str]
    in_vain: int = 0

    def replay(self) -> str:
        return f"make sim SEED={self.seed}"


class Simulation:
    """A world of machines that share one server; `node_type` and `backend_type` are for planted bugs."""

    def __init__(
        self,
        seed: int,
        *,
        node_type: type[SimNode] = SimNode,
        backend_type: type[SimBackend] = SimBackend,
    ) -> None:
        self.world = World(seed)
        self.plan: Plan = draw_plan(seed)
        self.weather = Weather()
        self.server = MemoryServer(lambda: EPOCH_MS + int(self.world.now * 1000))
        self.checks = Checks(self.world, self.server)
        self.nodes: list[SimNode] = []
        self.dead: list[SimNode] = []
        self._node_type = node_type
        self._backend_type = backend_type

    def run(self) -> Verdict:
        breach: str | None = None
        try:
            self._live()
        except Breach as error:
            breach = str(error)
            self.world.note("BREACH", breach)
        finally:
            for node in self.nodes + self.dead:
                node.loop.drain()
        checks = self.checks
        return Verdict(
            self.world.seed,
            breach,
            self.world.now,
            checks.acts,
            checks.accepted_writes,
            len(self.plan.troubles),
            self.world.trace,
        )

    def _live(self) -> None:
        self._seed_tasks()
        for at in range(len(self.plan.clocks)):
            self.nodes.append(self._make_node(at))
            self.nodes[at].boot()
        for trouble in self.plan.troubles:
            self.world.after(trouble.at, partial(self._strike, trouble))
        self.world.run_until(self.plan.quiet_at)
        self._expect(LEADER_WITHIN_S, self._has_leader, "no leader after the troubles ended")
        self._expect(DONE_WITHIN_S, lambda: self.checks.undone() == 0, "tasks were left undone")
        self.checks.check_told()
        self._raise_failures()

    def _expect(self, within_s: float, done: Callable[[], bool], what: str) -> None:
        if not self.world.run_until(self.world.now + within_s, done):
            raise Breach(f"{what}, {within_s:g} s later")

    def _has_leader(self) -> bool:
        return any(node.belief() is not None for node in self.nodes)

    def _raise_failures(self) -> None:
        for node in self.nodes + self.dead:
            for task in node.loop.tasks:
                if task.done() and not task.cancelled() and task.exception() is not None:
                    raise Breach(f"{node.name} failed: {task.exception()!r}")
            if node.loop.failures:
                raise Breach(f"{node.name} failed: {node.loop.failures[0]!r}")

    def _seed_tasks(self) -> None:
        for at in range(self.plan.tasks):
            body = {"status": QUEUED}
            self.server.put(TASKS, Document(f"t{at}", body, self.server.draw()), 0)

    def _make_node(self, at: int) -> SimNode:
        offset, rate = self.plan.clocks[at]
        # Every boot has another monotonic zero; only the rate of the machine's crystal stays.
        loop = SimLoop(self.world, f"node{at}", offset + 100.0, rate)  # type: ignore[abstract]
        return self._node_type(f"node{at}", loop, lambda: self._connect(loop), self.checks)

    def _connect(self, loop: SimLoop) -> SimBackend:
        return self._backend_type(self.world, loop, self.server, self.weather, self.checks)

    def _strike(self, trouble: Trouble) -> None:
        self.world.note("trouble", f"{trouble.kind} node{trouble.node} for {trouble.seconds:.1f} s")
        match trouble.kind:
            case "crash":
                self._crash(trouble)
            case "pause":
                self._pause(trouble)
            case "store down":
                self._change(trouble, store_up=False, refuses=True)
            case "store silent":
                self._change(trouble, store_up=False, refuses=False)
            case "slow":
                self._change(trouble, slow_share=0.3, slow_s=self.world.random.uniform(0.5, 8.0))
            case "lossy":
                self._change(trouble, lose_request=0.2, lose_answer=0.2)
            case "resets":
                self._change(trouble, reset=0.3)

    def _crash(self, trouble: Trouble) -> None:
        node = self.nodes[trouble.node]
        if node.loop.crashed:
            return
        node.loop.crashed = True
        self.dead.append(node)

        def restart() -> None:
            self.nodes[trouble.node] = self._make_node(trouble.node)
            self.nodes[trouble.node].boot()

        self.world.after(trouble.seconds, restart)

    def _pause(self, trouble: Trouble) -> None:
        loop = self.nodes[trouble.node].loop
        loop.paused = True
        self.world.after(trouble.seconds, loop.resume)

    def _change(self, trouble: Trouble, **weather: float | bool) -> None:
        for name, value in weather.items():
            setattr(self.weather, name, value)

        def clear() -> None:
            calm = Weather()
            for name in weather:
                setattr(self.weather, name, getattr(calm, name))

        self.world.after(trouble.seconds, clear)


def simulate(seed: int) -> Verdict:
    """Run one seed with the product's own code."""
    with quiet_logs():
        return Simulation(seed).run()


@contextmanager
def quiet_logs() -> Iterator[None]:
    """The product's logs would be most of the time of a run; the trace tells the same story."""
    logger = logging.getLogger("tidemill")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
