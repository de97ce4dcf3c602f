"""The dispatcher: brings jobs to the workers of this node, and their results to the registry.

    claim ─► held ─► link ─► worker ─► link ─► ledger ─► let go

Several nodes dispatch at the same time, each for its own workers: a claim is one act of the store, so that no
job goes to two. A node without workers asks nothing of the store.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from itertools import islice
from typing import Any

from msgspec.structs import replace

from tidemill.base.clock import Clock, boot_clock
from tidemill.base.ids import new_token
from tidemill.base.log import get_logger
from tidemill.base.service import Service
from tidemill.cluster import Timing, list_nodes
from tidemill.store import Collection, StoreError
from tidemill.store.blobs import BlobError
from tidemill.tasks.blobs import Shelves
from tidemill.tasks.claim import Seat, claim_of, in_turn
from tidemill.tasks.errands import Errands
from tidemill.tasks.heads import anything_waits, lowest_rank
from tidemill.tasks.hearing import Hearing, Told
from tidemill.tasks.held import Held
from tidemill.tasks.limits import NODE_LIMITS, NodeLimits, read_limits
from tidemill.tasks.queue import QUEUES, Queue, list_queues
from tidemill.tasks.registry import SIGNALS, Registry
from tidemill.tasks.remote.adoption import adopt
from tidemill.tasks.remote.jobs import PASSED_ON, Jobs
from tidemill.tasks.remote.link import Enrolment, Link, stuck_after_s
from tidemill.tasks.remote.roster import KICKS, Roster, asked_to_leave, others_at, seen_of
from tidemill.tasks.remote.session import POLICY, RESTART, Assigned, Rules
from tidemill.tasks.rounds import lasting
from tidemill.tasks.status import FAILED, SUCCEEDED
from tidemill.tasks.storetime import StoreTime
from tidemill.tasks.strays import give_back_strays
from tidemill.tasks.task import TASKS, Crashed, Finished, GivenBack, Left, Progress
from tidemill.worker import wire
from tidemill.worker.wire import TaskRef

log = get_logger("tidemill.dispatch")

FALLBACK_S = 120.0
"""How often to look without having been told, while there are workers."""

MOST_AT_ONCE = 500
GAP_S = 0.002
"""The least time from one look that hints cause to the next."""

TOGETHER_S = 0.003
"""The least time from one round of claims to the next, where there are several workers."""

RESUME_S = 10.0
"""For how long the tasks of a worker that has lost its connection are kept for it, if it can come back."""

AVOID_MS = 1000
AVOID_TIMES = 60
"""How often a job waits for another worker than the one that failed at it, for how long each time."""

RECHECK_S = 30.0
"""How often it is looked whether a worker's token still opens the door."""

SLACK_MS = 200
LOGS_CHARACTERS = 64 * 1024
INFO_CHARACTERS = 4000
"""How much is kept of logs, their end, and of the words of a report or a failure, their beginning."""

REASON_CHARACTERS = 200
"""How much of the reason of a failure the node's log has; the task has more."""

KICKED = 4000
LEAVING = "this node is leaving; connect again, to any other"

Check = Callable[[str], Awaitable[str | None]]
"""Whether a token opens the door to workers: None, or why it does not."""


class Dispatch(Service):
    """Jobs for the workers of this node. `jobs.held` is what they have, for a `Keeper` to renew.

    Stopping closes all connections. What plain workers had is given back; what others had waits for them to
    come back, to this node or another, until its lease runs out.
    """

    name = "dispatch"

    def __init__(
        self,
        registry: Registry,
        seat: Seat,
        shelves: Shelves,
        check: Check,
        *,
        rules: Rules | None = None,
        timing: Timing | None = None,
        clock: Clock = boot_clock,
    ) -> None:
        super().__init__()
        self.shelves = shelves
        self.rules = rules or Rules()
        self.timing = timing or Timing()
        self._store = registry.store
        # Apart from what the node itself runs, so that the bound on that does not count it.
        self._seat = Seat(f"{seat.node}/workers", seat.token, seat.ttl_ms)
        self._node = seat.node
        self._check = check
        self._clock = clock
        self._time = StoreTime(self._store, clock)
        self._roster = Roster(self._store, self._time)
        self._errands = Errands()
        self.jobs = Jobs(
            registry,
            self._seat.node,
            self._roster,
            self._errands,
            self._show,
            timing=self.timing,
            clock=clock,
        )
        self._links: dict[Link, int] = {}
        """Those who have registered, and since when by the store's time."""
        self._free: dict[str, dict[Link, None]] = {}
        self._queues: dict[str, Queue] = {}
        self._limits = NodeLimits()
        self._stale = True
        self._told = True
        self._strays = False
        """A claim may have taken tasks that we do not know of."""
        self._dry: set[str] = set()
        """Queues of which the last claim left nothing, and nobody has told of more since."""
        self._round = 0
        self._claimed = 0.0
        self._some_links = asyncio.Event()
        self._hearing = Hearing(self._store, gap_s=lambda: GAP_S, again_s=self.timing.beat_s)
        self._tasks: list[asyncio.Task[None]] = []

    # Its life

    async def start(self) -> None:
        if not self._tasks:
            watched: list[tuple[Collection, Sequence[str], Told]] = [
                (TASKS, ["queued"], self.wake),
                (TASKS, ["ended"], self._some_ended),
                (QUEUES, [], self._settings_changed),
                (NODE_LIMITS, [], self._settings_changed),
                (SIGNALS, [], lambda: self._errands.begin(self.jobs.heed_cancels())),
                (KICKS, [], lambda: self._errands.begin(self._heed_kicks())),
            ]
            work: list[Callable[[], Coroutine[Any, Any, None]]] = [
                self.jobs.ledger.run,
                self.jobs.sweep,
                self._roster.run,
                self._recheck,
                *(
                    partial(self._hearing.hear, collection, about, self._some_links, told)
                    for collection, about, told in watched
                ),
            ]
            self._tasks = [asyncio.create_task(lasting(one)) for one in work]
        await super().start()

    async def leave(self) -> None:
        """Close all connections, so that workers go elsewhere. The node must still beat."""
        self._stopping = True
        for link in list(self._links):
            with contextlib.suppress(ConnectionError):
                await link.close(RESTART, LEAVING)

    async def stop(self) -> None:
        await self.leave()
        try:
            await super().stop()
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.timing.trust_s):
                    await self.jobs.ledger.wait_idle()
                    await self._roster.flush()
            tasks, self._tasks = self._tasks, []
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._errands.stop()

    def wake(self) -> None:
        self._told = True
        super().wake()

    # Claiming

    async def tick(self) -> float:
        told, self._told = self._told, False
        if told:
            self._dry.clear()
        if not any(self._free.values()) or self._stopping:
            return FALLBACK_S
        if self._stale:
            await self._refresh()
        if self._strays:
            await give_back_strays(self._store, self._seat, self.jobs.held, await self._time.now())
            self._strays = False
        if self._limits.draining or self._limits.dead == self._seat.token:
            return FALLBACK_S
        names = [name for name, links in self._free.items() if links and self._open(name)]
        if not names or (not told and not await anything_waits(self._store, names)):
            return FALLBACK_S
        # Workers that become free one after the other are served together: a claim is what costs most.
        if len(self._links) > 1:
            await asyncio.sleep(max(self._claimed + TOGETHER_S - self._clock(), 0.0))
        self._claimed = self._clock()
        self._round += 1
        for queue in in_turn([self._queues[name] for name in names], self._round):
            await self._claim(queue)
        return FALLBACK_S

    def _open(self, name: str) -> bool:
        queue = self._queues.get(name)
        return queue is not None and not queue.paused and queue.threads != 0 and queue.runs_on(self._node)

    async def _refresh(self) -> None:
        self._stale = False
        try:
            self._limits = await read_limits(self._store, self._node)
            found = await list_queues(self._store)
        except StoreError:
            self._stale = True
            raise
        self._queues = {queue.name: queue for queue in found if queue.kind == "remote"}

    async def _claim(self, queue: Queue) -> None:
        free = islice(self._free.get(queue.name, ()), MOST_AT_ONCE)
        room = min(sum(link.room for link in free), MOST_AT_ONCE)
        if room == 0:
            return
        rank = await lowest_rank(self._store, queue.name) if queue.sort == "lifo" else None
        if queue.sort == "lifo" and rank is None:
            return
        sent = self._clock()
        claim = claim_of(queue, self._seat, room, None, rank)
        try:
            taken = await self._store.claim(TASKS, claim)
        except StoreError:
            self._strays = True
            raise
        if len(taken) < room and not claim.caps and rank is None:
            self._dry.add(queue.name)
        for found in taken:
            await self._assign(self.jobs.hold(found, queue, found.term, sent))

    async def _assign(self, held: Held) -> None:
        """Give the job to a worker, best to another than the one that failed at it last."""
        free = self._free.get(held.queue.name, {})
        fit = (link for link in free if link.room > 0)
        link = next((one for one in fit if one.worker.id != held.task.last_worker), None)
        if link is None and not await self._leave_to_others(held):
            link = next((one for one in free if one.room > 0), None)
        if link is None:
            failed_here = held.task.last_worker is not None
            self.jobs.end(held, Left(AVOID_MS) if failed_here else GivenBack("no worker was left for it"))
            return
        link.reserve(held.key)
        if link.room == 0:
            free.pop(link, None)
        self.jobs.give(held, link)
        self._errands.begin(self._give(link, held))

    async def _leave_to_others(self, held: Held) -> bool:
        """Whether a job is to wait for another worker than the one that failed at it."""
        last, queue = held.task.last_worker, held.queue.name
        if last is None or held.task.avoided >= AVOID_TIMES:
            return False
        if any(link.queue == queue and link.worker.id != last for link in self._links):
            return True
        with contextlib.suppress(StoreError):
            tokens = frozenset(node.token for node in await list_nodes(self._store) if node.alive)
            return await others_at(self._store, queue, last, tokens)
        return False

    async def _give(self, link: Link, held: Held) -> None:
        try:
            await link.give(held)
        except ConnectionError:
            self.jobs.end(held, GivenBack("its worker went away before it had it"))
        except (BlobError, OSError) as error:
            self.jobs.end(held, Finished(FAILED, reason=f"its payload cannot be read: {error}"))
            self.free(link)
        else:
            self.jobs.begun(held)
            self._show(link)

    # What links tell

    async def enrol(self, link: Link, worker: wire.Registered) -> Enrolment:
        """Let a worker in, with those of its tasks that are still its own; or say why not."""
        refused = await self._check(worker.token)
        if refused is not None:
            return Enrolment(refused=refused)
        if link.closed or self._stopping:
            await link.close(RESTART, LEAVING)
            return Enrolment(refused=LEAVING)
        number = worker.session or new_token()
        await self._replace(link, worker, number)
        kept = await self._keep(link, worker) if worker.tasks else ()
        self._links[link] = await self._time.now()
        self._some_links.set()
        if not self._queues:
            self._stale = True
        log.info("worker.came", worker=worker.id, name=worker.name, queue=link.queue, kept=len(kept))
        return Enrolment(number, kept)

    async def _replace(self, link: Link, worker: wire.Registered, number: str) -> None:
        """Close the last connection of a worker that has come again. What was sent there and never reached
        the worker goes to others."""
        for other in [one for one in self._links if one is not link and one.session.session == number]:
            self._links.pop(other)
            brought = {ref.task for ref in worker.tasks}
            missed = [held for held in self.jobs.all_of(other) if held.key not in brought]
            self.jobs.reset(other, missed, "it came again without it", leaving=False)
            with contextlib.suppress(ConnectionError):
                await other.close(RESTART, "the worker has come again over another connection")

    async def _keep(self, link: Link, worker: wire.Registered) -> tuple[Assigned, ...]:
        """Those of its tasks that the worker goes on with, each under the fence that it has now."""
        if self._stale or link.queue not in self._queues:
            await self._refresh()
        here = [ref for ref in worker.tasks if self.jobs.has(ref)]
        sent = self._clock()
        others = [ref for ref in worker.tasks if ref not in here]
        adopted = await adopt(self._store, self._seat, link.queue, worker.id, others) if others else []
        queue = self._queues[link.queue]
        for found, lease in adopted:
            held = self.jobs.hold(found, queue, lease.term, sent)
            self.jobs.resumed(held, await self._time.now())
        refs = [*here, *(TaskRef(found.key, lease.term) for found, lease in adopted)]
        for ref in refs:
            self.jobs.give(self.jobs.held[ref.task], link)
        now = self._clock()
        return tuple(Assigned(ref, now, now, stuck_after_s(queue.policy)) for ref in refs)

    def free(self, link: Link) -> None:
        """The worker would take a job."""
        if link in self._links and link.room > 0:
            self._free.setdefault(link.queue, {})[link] = None
            self._show(link)
            if link.queue not in self._dry:
                self.wake()

    def occupied(self, link: Link) -> None:
        """The worker would take no job now."""
        self._free.get(link.queue, {}).pop(link, None)
        self._show(link)

    def progressed(self, link: Link, ref: TaskRef, percent: float | None, info: str | None) -> None:
        held = self.jobs.of(link, ref)
        if held is not None:
            before = held.progress or held.task.progress or Progress()
            held.progress = Progress(
                before.percent if percent is None else percent,
                before.info if info is None else info[:INFO_CHARACTERS],
            )
            self._show(link)

    async def succeeded(self, link: Link, ref: TaskRef, value: Any) -> None:
        """Write the result down; the worker is told once that is done."""
        held = self.jobs.of(link, ref)
        if held is not None:
            self.jobs.answered(held, Finished(SUCCEEDED, value, onward=held.queue.becomes))
        elif link.session.plain:
            self.dropped(link, "a late result")
        else:
            queue = self._queues.get(link.queue)
            onward = None if queue is None else queue.becomes
            # Before the worker's next word is heard: else it might be given the same task again.
            await self.jobs.take_late(link, ref, value, onward)

    async def failed(self, link: Link, ref: TaskRef, info: str | None, logs: str | None) -> None:
        held = self.jobs.of(link, ref)
        if held is None:
            self.dropped(link, "a late failure")
            return await link.settle(ref, False, PASSED_ON)
        self._roster.count(link.worker.id, link.worker.name, failed=1)
        logs = None if logs is None else logs[-LOGS_CHARACTERS:]
        reason = info[:INFO_CHARACTERS] if info else "the worker failed at it"
        log.info("job.failed", task=ref.task, worker=link.worker.id, reason=reason[:REASON_CHARACTERS])
        return self.jobs.answered(held, Finished(FAILED, stderr=logs, reason=reason))

    def lapsed(self, link: Link, ref: TaskRef, reason: str) -> None:
        held = self.jobs.of(link, ref)
        if held is not None:
            self.jobs.end(held, Crashed(f"worker {link.worker.name}: {reason}"))

    def stuck(self, link: Link, ref: TaskRef, silent_s: float) -> None:
        """A job of which nothing is heard is dealt with as its queue says, and its worker sent away."""
        held = self.jobs.of(link, ref)
        if held is None:
            return
        reason = f"no sign of it from worker {link.worker.name} for {silent_s:.0f} s"
        log.warning("task.stuck", task=ref.task, worker=link.worker.id, silent_s=round(silent_s))
        fails = held.queue.policy.stuck == "fail"
        self.jobs.end(held, Finished(FAILED, reason=reason) if fails else Crashed(reason))
        self._errands.begin(self._send_away(link, ref, reason))

    async def _send_away(self, link: Link, ref: TaskRef, reason: str) -> None:
        await link.withdraw(ref, reason)
        await link.close(KICKED, reason)

    def dropped(self, link: Link, what: str) -> None:
        log.info("worker.dropped", worker=link.worker.id, what=what)
        self._roster.count(link.worker.id, link.worker.name, dropped=1)

    def left(self, link: Link, reason: str = "") -> None:
        """The connection has ended. Jobs of a plain worker are reset; those of others wait for it a while."""
        link.left()
        for links in self._free.values():
            links.pop(link, None)
        since = self._links.pop(link, None)
        if not self._links:
            self._some_links.clear()
        if since is None:
            return
        self._show(link, since, gone=True, reason=reason)
        log.info("worker.went", worker=link.worker.id, name=link.worker.name, queue=link.queue, reason=reason)
        reset = partial(self.jobs.reset, link, self.jobs.all_of(link), reason, leaving=self._stopping)
        if link.session.plain:
            reset()
        elif not self._stopping:
            asyncio.get_running_loop().call_later(RESUME_S, reset)

    # What others want

    async def _heed_kicks(self) -> None:
        """Close the connections of workers that somebody wants gone."""
        if not self._links:
            return
        kicked = await asked_to_leave(self._store)
        for link, since in list(self._links.items()):
            # Both are the store's time, of which ours is an estimate.
            if since - SLACK_MS <= kicked.get(link.worker.id, -SLACK_MS - 1):
                await link.close(KICKED, "kicked")

    async def _recheck(self) -> None:
        """Close the connections of workers whose token has been revoked since, or has expired."""
        while True:
            await self._some_links.wait()
            await asyncio.sleep(RECHECK_S)
            for link in list(self._links):
                with contextlib.suppress(StoreError, ConnectionError):
                    refused = await self._check(link.worker.token)
                    if refused is not None:
                        await link.close(POLICY, refused)

    def _some_ended(self) -> None:
        """Here or elsewhere: there may be room within the bound of a queue."""
        if any(queue.threads is not None for queue in self._queues.values()):
            self.wake()

    def _settings_changed(self) -> None:
        self._stale = True
        self.wake()

    def _show(self, link: Link, since: int | None = None, *, gone: bool = False, reason: str = "") -> None:
        """Have the roster say what this connection is at."""
        began = since if since is not None else self._links.get(link)
        if began is not None:
            seen = seen_of(link, began, self._node, self._seat.token)
            if gone:
                seen = replace(seen, state="gone", tasks=(), gone=seen.seen, reason=reason or None)
            self._roster.show(link.worker.id, link.worker.name, link.session.session, seen)
