"""The execution node: claims tasks within every limit, has them run, and writes down what came of them.

It wakes when tasks arrive or end: the interval at which it looks anyway is a fallback and not the latency.

    claim ─► held ─► pool of runners ─► ledger ─► let go
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Container, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol

from msgspec import Struct

from tidemill.base.clock import Clock, boot_clock
from tidemill.base.errors import TidemillError
from tidemill.base.log import get_logger
from tidemill.base.service import Service
from tidemill.cluster import Grant, Timing, list_nodes
from tidemill.store import Collection, Store, StoreError
from tidemill.tasks.claim import Choice, Seat, claim_of, in_turn, served
from tidemill.tasks.errands import Errands
from tidemill.tasks.heads import anything_waits, lowest_rank
from tidemill.tasks.hearing import Hearing, Told
from tidemill.tasks.held import Held
from tidemill.tasks.keeping import Keeping, discard
from tidemill.tasks.ledger import Ledger
from tidemill.tasks.limits import NODE_LIMITS, NodeLimits, read_limits
from tidemill.tasks.pieces import Journal
from tidemill.tasks.queue import QUEUES, Queue, list_queues
from tidemill.tasks.registry import SIGNALS
from tidemill.tasks.room import Room
from tidemill.tasks.rounds import lasting
from tidemill.tasks.runner.job import Ending, Finished, Job, Stream, Untouched
from tidemill.tasks.storetime import StoreTime
from tidemill.tasks.strays import give_back_strays
from tidemill.tasks.task import (
    TASKS,
    Event,
    GivenBack,
    Left,
    Progress,
    Reported,
    Started,
    Stopped,
    task_of,
)

log = get_logger("tidemill.execution")

FALLBACK_S = 120.0
"""How often to look without having been told: at the heads of all queues, in one statement."""

COUNT_S = 10.0
"""For how long it is taken as known how many nodes there are."""

GAP_S = 0.002
"""The least time from one look that hints cause to the next, for each node there is."""

SWEEP_S = 0.05
"""How long a task runs before that is written down; what ends sooner is written down as ended only."""

TROUBLE_S = 10.0
"""For how long a node takes no tasks after one could not be begun for want of files, processes or memory."""

PATIENCE_S = 1.0
"""How long a task waits for a slot of the node that claimed it."""

AVOID_MS = 200
AVOID_TIMES = 10
"""A node leaves what failed on it to others so often, for so long each time; then it takes it itself."""


class Runners(Protocol):
    """What runs jobs: `tidemill.tasks.runner.Pool`, or a stand-in in the simulator."""

    async def start(self) -> None: ...

    async def stop(self, grace_s: float) -> None: ...

    def hand_in(self, jobs: Sequence[Job]) -> None: ...

    def cancel(self, task: str) -> None: ...

    def withdraw(self, tasks: Container[str]) -> None: ...


class Place(Struct, frozen=True):
    """What an execution node is told about itself."""

    seat: Seat
    slots: int
    choice: Choice = Choice()
    maxthreads: int | None = None
    """Its bound on tasks at a time, unless people have set another."""
    grace_s: float = 5.0


class Execution(Service):
    """Runs tasks on this node. `held` is what it has in hands, for a `Keeper` to renew.

    `knows` says whether a plugin can be run here: queues of others are left alone, and reported. Stopping
    gives back what has not ended within the grace time; a node that dies loses its leases, and so its tasks.
    """

    name = "execution"

    def __init__(
        self,
        store: Store,
        place: Place,
        make_runners: "Callable[[Execution], Runners]",
        keeping: Keeping,
        *,
        knows: Callable[[str], bool] = lambda _: True,
        timing: Timing | None = None,
        clock: Clock = boot_clock,
        source: random.Random | None = None,
    ) -> None:
        super().__init__()
        self.held: dict[str, Held] = {}
        self.timing = timing or Timing()
        self.unknown: frozenset[str] = frozenset()
        """Queues that this node would serve if it knew their plugin."""
        self.trouble: str | None = None
        """Why this node cannot run tasks now, if it cannot."""
        self._well_at = 0.0
        self._store = store
        self._place = place
        self._keeping = keeping
        self._knows = knows
        self._clock = clock
        self._time = StoreTime(store, clock)
        self._ledger = Ledger(store, self._time, self._settled, source)
        self._journal = Journal(store)
        self._runners = make_runners(self)
        self._queues: list[Queue] = []
        self._limits = NodeLimits()
        self._stale = True
        self._told = True
        self._strays = False
        """A claim may have taken tasks that we do not know of."""
        self._more = True
        """There may be tasks that the last round of claims left for want of room, or for a bound."""
        self._leaving = False
        self._round = 0
        self._freed = 0
        self._counts: Counter[str] = Counter()
        self._room = Room(place.slots)
        self._some_held = asyncio.Event()
        self._nodes = 1
        self._count_again = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._bounded = asyncio.Event()
        """Some queue bounds how many of its tasks run at a time."""
        self._errands = Errands()
        self._hearing = Hearing(store, gap_s=lambda: GAP_S * self._nodes, again_s=self.timing.beat_s)

    # The loop

    async def start(self) -> None:
        await self._runners.start()
        if not self._tasks:
            work: list[Callable[[], Coroutine[Any, Any, None]]] = [self._ledger.run, self._sweep]
            work += [partial(self._hearing.hear, *watched) for watched in self._watched()]
            self._tasks = [asyncio.create_task(lasting(one)) for one in work]
        await super().start()

    def _watched(self) -> list[tuple[Collection, Sequence[str], asyncio.Event, Told]]:
        always = asyncio.Event()
        always.set()
        return [
            (TASKS, ["queued"], always, self.wake),
            (TASKS, ["ended"], self._bounded, self.wake),  # there may be room within the bound of a queue
            (QUEUES, [], always, self._settings_changed),
            (NODE_LIMITS, [], always, self._settings_changed),
            (SIGNALS, [], always, lambda: self._errands.begin(self._heed_cancels())),
        ]

    async def stop(self) -> None:
        """Claim no more, end what runs, give everything back."""
        self._leaving = self._stopping = True
        try:
            await self._last_round()
            await super().stop()
        finally:
            await self._runners.stop(self._place.grace_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.timing.trust_s):
                    await self._ledger.wait_idle()
            tasks, self._tasks = self._tasks, []
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._errands.stop()
            self.held.clear()  # what could not be given back is lost with its lease

    async def _last_round(self) -> None:
        """Let a claim that is under way come to its end: broken off, it might take what nobody knows of."""
        if self._task is not None:
            self.wake()
            await asyncio.wait([self._task], timeout=self.timing.trust_s)

    def wake(self) -> None:
        self._told = True
        super().wake()

    async def tick(self) -> float:
        """Claim what there is room for, from one queue after another.

        An error that nobody thought of must not be the end of all tasks: it is logged, and then it goes on.
        """
        try:
            return await self._round_of_claims()
        except TidemillError:
            raise
        except Exception as error:
            log.exception("execution.round_raised", error=f"{type(error).__name__}: {error}")
            return TROUBLE_S

    async def _round_of_claims(self) -> float:
        told, self._told = self._told, False
        if self._stale:
            await self._refresh()
        if self._strays:
            await give_back_strays(self._store, self._place.seat, self.held, await self._time.now())
            self._strays = False
        if self._limits.draining or self._limits.dead == self._place.seat.token or self._leaving:
            return FALLBACK_S
        if self.trouble is not None and self._clock() < self._well_at:
            return self._well_at - self._clock()
        self.trouble = None
        if not told and not await anything_waits(self._store, [queue.name for queue in self._queues]):
            return FALLBACK_S
        self._round += 1
        self._more = False
        for queue in in_turn(self._queues, self._round):
            room = self._room.left(queue.name, self._counts)
            if room > 0:
                await self._claim(queue, room)
            else:
                self._more = True
        return FALLBACK_S

    async def _refresh(self) -> None:
        """Learn what queues there are, and what people have set for this node."""
        self._stale = False
        try:
            self._limits = await read_limits(self._store, self._place.seat.node)
            found = served(await list_queues(self._store), self._place.seat.node, self._place.choice)
        except StoreError:
            self._stale = True
            raise
        unknown = frozenset(one.name for one in found if one.plugin and not self._knows(one.plugin))
        for name in sorted(unknown - self.unknown):
            log.warning("queue.ignored", queue=name, reason="its plugin is not one that this node can run")
        self.unknown = unknown
        self._queues = [queue for queue in found if queue.name not in unknown]
        if any(queue.threads is not None for queue in self._queues):
            self._bounded.set()
        else:
            self._bounded.clear()

    # Claiming

    async def _claim(self, queue: Queue, room: int) -> None:
        rank = await lowest_rank(self._store, queue.name) if queue.sort == "lifo" else None
        if queue.sort == "lifo" and rank is None:
            return
        sent = self._clock()
        claim = claim_of(queue, self._place.seat, room, self._maxthreads(), rank)
        try:
            taken = await self._store.claim(TASKS, claim)
        except StoreError:
            self._strays = self._more = True
            raise
        if len(taken) == room or claim.caps or rank is not None:
            self._more = True
        if not taken:
            return
        for old in [self.held[found.key] for found in taken if found.key in self.held]:
            old.lost = True  # its lease ran out before we noticed, and it came back to us
            self.lose(old)
            self._settled(old)
        trusted_until = sent + self.timing.trust_s
        begun = [Held(found, queue, Grant(found.key, found.term, trusted_until), sent) for found in taken]
        self.held.update((held.key, held) for held in begun)
        self._counts[queue.name] += len(begun)
        self._some_held.set()
        if any(held.task.last_node == self._place.seat.node for held in begun):
            await self._count_nodes()
        await self._begin([held for held in begun if not self._leave(held)])

    def _maxthreads(self) -> int | None:
        return self._place.maxthreads if self._limits.maxthreads is None else self._limits.maxthreads

    async def _count_nodes(self) -> None:
        """How many nodes there are, from memory if that is fresh enough."""
        if self._clock() >= self._count_again:
            self._count_again = self._clock() + COUNT_S
            with contextlib.suppress(StoreError):  # tasks that were just claimed must be begun all the same
                self._nodes = max(sum(node.alive for node in await list_nodes(self._store)), 1)

    def _leave(self, held: Held) -> bool:
        """Leave what failed here to another node for a moment, if there is one."""
        leaves = (
            self._nodes > 1
            and held.task.last_node == self._place.seat.node
            and held.task.avoided < AVOID_TIMES
            and held.queue.nodes != (self._place.seat.node,)
        )
        if leaves:
            self._end(held, Left(AVOID_MS))
        return leaves

    async def _begin(self, begun: Sequence[Held]) -> None:
        jobs = []
        for held in begun:
            try:
                jobs.append(await self._keeping.job_for(held))
            except TidemillError as error:
                self._end(held, self._keeping.unreadable(error))
        self._runners.hand_in(jobs)
        for held in begun:
            if held.lost:  # while it was prepared
                self._settled(held)

    # What the runners tell

    def started(self, job: Job) -> None:
        held = self.held.get(job.id)
        if held is not None and held.grant.term == job.fence:
            held.begun = self._clock()

    def progressed(self, job: Job, percent: float | None, info: str | None) -> None:
        held = self.held.get(job.id)
        if held is not None and held.grant.term == job.fence:
            held.progress = Progress(percent, info)

    def wrote(self, job: Job, stream: Stream, offset: int, data: bytes) -> None:
        held = self.held.get(job.id)
        if held is not None and held.grant.term == job.fence:
            self._journal.put(held, stream, offset, data)

    def ended(self, job: Job, ending: Ending) -> None:
        held = self.held.get(job.id)
        if held is None or held.grant.term != job.fence or held.lost:
            discard(ending)
            if held is not None and held.grant.term == job.fence:
                self._settled(held)
            return
        self._measure(held)
        if isinstance(ending, Untouched) or (self._leaving and not isinstance(ending, Finished)):
            discard(ending)
            if isinstance(ending, Untouched) and ending.trouble:
                self._have_trouble(ending.reason)
            self._end(held, GivenBack("its node was leaving" if self._leaving else None))
            return
        event = self._keeping.at_once(held, ending)
        if event is not None:
            self._end(held, event)
        else:
            self._errands.begin(self._keep(held, ending))

    def _have_trouble(self, reason: str) -> None:
        """This machine cannot run tasks now: leave them to others for a while, and say so."""
        if self.trouble is None:
            log.error("node.cannot_run_tasks", reason=reason, pause_s=TROUBLE_S)
        self.trouble = reason
        self._well_at = self._clock() + TROUBLE_S

    async def _keep(self, held: Held, ending: Ending) -> None:
        """Put away what is too large for a document, then write the end down."""
        self._end(held, await self._keeping.put_away(held, ending))

    def _end(self, held: Held, event: Event) -> None:
        if held.cancelling and isinstance(event, Stopped):
            event = Stopped(held.task.reason or "cancelled", True, event.stdout, event.stderr)
        held.ending = True
        self._ledger.put(held, event)

    def _settled(self, held: Held) -> None:
        """It is out of our hands: there is room for others."""
        if self.held.get(held.key) is held and (held.ending or held.lost):
            del self.held[held.key]
            self._counts[held.queue.name] -= 1
            if held.lost and not held.ending:
                self._runners.cancel(held.key)
            if self._journal.has(held.key):
                self._errands.begin(self._journal.forget(held.key))
            self._freed += 1
            if self._more and self._freed >= len(self.held) // 4:
                self._freed = 0
                self.wake()

    def _measure(self, held: Held) -> None:
        if held.begun is not None:
            self._room.took(held.queue.name, self._clock() - held.begun)

    async def wait_written(self) -> None:
        """Return once everything that has ended so far is written down, or lost."""
        await self._ledger.wait_idle()

    # What others ask

    def lose(self, held: Held) -> None:
        """The lease ran out or passed on: its runner must end now, and nothing is written."""
        if held.ending:
            return  # its lease was let go of with its last write
        log.warning("task.lost", task=held.key, term=held.grant.term)
        self._runners.cancel(held.key)

    async def _heed_cancels(self) -> None:
        """End the tasks that somebody wants ended."""
        if not self.held:
            return
        with contextlib.suppress(StoreError):
            found = await self._store.get_many(TASKS, list(self.held))
            for key, document in found.items():
                held = self.held.get(key)
                asked = bool(document.body.get("cancel"))
                if held is not None and asked and document.term == held.grant.term and not held.cancelling:
                    held.cancelling = True
                    held.document, held.task = document, task_of(document)
                    self._runners.cancel(key)

    def _settings_changed(self) -> None:
        self._stale = True
        self.wake()

    # What is written while tasks run

    async def _sweep(self) -> None:
        """Write down which tasks run, how far they are, and what they print, a few times a second."""
        while True:
            await self._some_held.wait()
            await asyncio.sleep(SWEEP_S)
            if not self.held:
                self._some_held.clear()
            since = self._clock() - SWEEP_S
            for held in self.held.values():
                if held.begun is not None and held.begun <= since and not held.ending and not held.lost:
                    self._note(held)
            self._give_others()
            with contextlib.suppress(StoreError):
                await self._journal.flush()

    def _give_others(self) -> None:
        """Give back what waits here for long: its queue is slower than it was, and others may have slots."""
        since = self._clock() - PATIENCE_S
        waits = {
            held.key: held.queue.name
            for held in self.held.values()
            if held.begun is None and not held.ending and held.since <= since
        }
        for queue in set(waits.values()):
            self._room.took(queue, PATIENCE_S)
        if waits:
            self._runners.withdraw(waits)

    def _note(self, held: Held) -> None:
        """Write down that it runs, once, and how far it says to be."""
        if not held.noted:
            held.noted = True
            self._ledger.put(held, Started(self._place.seat.node))
        elif held.progress is not None:
            progress, held.progress = held.progress, None
            self._ledger.put(held, Reported(progress))
