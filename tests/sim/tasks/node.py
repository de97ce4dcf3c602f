"""What runs on a machine in the world of tasks, put together as a node does it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sim.network import SimBackend
from sim.node import SimNode
from sim.tasks.checks import TaskChecks
from sim.tasks.runners import SimRunners
from sim.world import SimLoop
from tidemill.cluster import Duty, Heart, join
from tidemill.cluster.keeper import Keeper
from tidemill.cluster.listing import Listing
from tidemill.cluster.nodes import entry_of, node_name
from tidemill.cluster.standing import Event
from tidemill.store import Fence, Store
from tidemill.tasks.blobs import Shelves
from tidemill.tasks.claim import Choice, Seat
from tidemill.tasks.execution import Execution, Place
from tidemill.tasks.keeping import Keeping
from tidemill.tasks.recovery import Promotion, Recovery
from tidemill.tasks.registry import Registry
from tidemill.tasks.retention import Retention
from tidemill.tasks.runner.job import Job
from tidemill.tasks.storetime import StoreTime
from tidemill.tasks.task import TASKS

if TYPE_CHECKING:
    from tidemill.tasks.held import Held

SLOTS = 3
MAXTHREADS = 2
GRACE_S = 1.0


class TaskNode(SimNode):
    """Heart and keeper on one connection, execution and the leader's duties on another."""

    def __init__(
        self, name: str, loop: SimLoop, connect: Callable[[], SimBackend], checks: TaskChecks
    ) -> None:
        super().__init__(name, loop, connect, checks)
        self.watched = checks
        self.execution: Execution | None = None
        self.runners: SimRunners | None = None
        self._keeper: Keeper[Held] | None = None
        self._duties: list[Duty] = []
        checks.nodes.append(self)

    async def leave(self) -> None:
        """Say goodbye, as a node does that is asked to stop."""
        for duty in self._duties:
            await duty.stop()
        if self.execution is not None:
            await self._tolerant(self.execution.stop)
        if self._keeper is not None:
            await self._keeper.stop()
        if self.heart is not None:
            await self.heart.stop()

    async def _main(self) -> None:
        store, beats = await self._open(), await self._open()
        key = await self._patiently(lambda: join(store, self.name, 1, self.token, self.name, self.timing))
        entry = entry_of(key, self.token, address=self.name, slots=SLOTS, started=0)
        listing = Listing(store, key, entry, self._lead_fence, self.timing)
        registry = Registry(store, StoreTime(store, self.loop.time), self.random)
        leading = {
            "recovery": Recovery(store, self.token, self.timing, self.random).lead,
            "promotion": Promotion(store).lead,
            "retention": Retention(registry, self._lead_fence).lead,
        }
        self._duties = [Duty(duty, lead) for duty, lead in leading.items()]

        def on_event(event: Event) -> None:
            self.loop.world.note(self.name, repr(event))
            listing.on_event(event)
            for duty in self._duties:
                duty.on_event(event)

        self.heart = Heart(
            beats,
            self.token,
            key,
            timing=self.timing,
            listener=on_event,
            clock=self.loop.time,
            source=self.random,
        )
        await self.heart.start()
        await self._execute(store, beats, node_name(key))

    async def _execute(self, store: Store, beats: Store, name: str) -> None:
        self.execution = Execution(
            store,
            Place(Seat(name, self.token, self.timing.ttl_ms), SLOTS, Choice(), MAXTHREADS, GRACE_S),
            self._make_runners,
            Keeping(Shelves(store), {}),
            timing=self.timing,
            clock=self.loop.time,
            source=self.random,
        )
        self._keeper = Keeper(
            beats,
            TASKS,
            self.token,
            self.execution.held,
            self.execution.lose,
            timing=self.timing,
            clock=self.loop.time,
        )
        await self._keeper.start()
        await self.execution.start()

    def _make_runners(self, execution: Execution) -> SimRunners:
        self.runners = SimRunners(self.loop, self.random, SLOTS, execution, self._began)
        return self.runners

    def _began(self, job: Job) -> None:
        self.loop.world.note(self.name, f"begins {job.id} under term {job.fence}")
        self.watched.began[job.id] += 1
        self.watched.acts += 1

    def _lead_fence(self) -> Fence:
        assert self.heart is not None
        return self.heart.fence()
