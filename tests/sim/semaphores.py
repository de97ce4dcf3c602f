"""Nodes that share a semaphore, instead of a lock, in the world of nodes."""

import asyncio
from collections.abc import Callable
from functools import partial

from sim.checks import Breach, Checks
from sim.network import SimBackend
from sim.node import SimNode
from sim.run import Simulation, Verdict, quiet_logs
from sim.world import SimLoop
from tidemill.base.ids import new_token
from tidemill.cluster import LeaseLost, Seat
from tidemill.cluster.turns import slot_of
from tidemill.store import Fence, Store

SLOTS = 2


class SemaphoreNode(SimNode):
    """Takes a slot again and again, acts under it for a while, lets go of it or loses it."""

    def __init__(self, name: str, loop: SimLoop, connect: Callable[[], SimBackend], checks: Checks) -> None:
        super().__init__(name, loop, connect, checks)
        self._seat: Seat | None = None
        self.quiet_entries = 0
        checks.believers.append(self.slot_belief)

    def slot_belief(self) -> tuple[str, Fence] | None:
        if self._seat is None or not self.loop.lives:
            return None
        try:
            return f"{self.name}'s slot", self._seat.fence()
        except LeaseLost:
            return None

    async def _use_lock(self, store: Store) -> None:
        while True:
            self._seat = Seat(
                store,
                "till",
                SLOTS,
                timing=self.timing,
                token=new_token(self.random),
                clock=self.loop.time,
                source=self.random,
            )
            await self._tolerant(partial(self._sit, self._seat))
            await asyncio.sleep(self.random.uniform(0.1, 2.0))

    async def _sit(self, seat: Seat) -> None:
        try:
            await seat.acquire()
            keeping = self.loop.create_task(seat.keep())
            try:
                for _ in range(self.random.randint(1, 8)):
                    fence = seat.fence()
                    if slot_of(fence.key) >= SLOTS:
                        raise Breach(f"{self.name} is in slot {fence.key} of {SLOTS}")
                    self.checks.acting(f"{self.name}'s slot", fence)
                    await asyncio.sleep(self.random.uniform(0.1, 1.0))
                self.quiet_entries += self.loop.world.now > self.quiet_at
            finally:
                keeping.cancel()
        finally:
            await seat.give_up()

    quiet_at = 0.0


class SemaphoreSimulation(Simulation):
    """At the end everybody gets in: nobody is starved, and nothing dead blocks the line for good."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, node_type=SemaphoreNode)

    def _live(self) -> None:
        super()._live()
        living = [node for node in self.nodes if isinstance(node, SemaphoreNode)]
        for node in living:
            node.quiet_at = self.world.now
            node.quiet_entries = 0
        self._expect(
            120.0, lambda: all(node.quiet_entries for node in living), "somebody never got a slot again"
        )
        self._raise_failures()


def simulate_semaphores(seed: int) -> Verdict:
    with quiet_logs():
        return SemaphoreSimulation(seed).run()
