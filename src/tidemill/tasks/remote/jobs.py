"""The jobs that the workers of this node have: who has which, and what is written down about them."""

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any

from tidemill.base.clock import Clock, boot_clock
from tidemill.base.log import get_logger
from tidemill.cluster import Grant, Timing
from tidemill.store import Conflict, Document, StoreError
from tidemill.tasks.chains import Chains
from tidemill.tasks.errands import Errands
from tidemill.tasks.errors import IllegalMove, NoSuchTask
from tidemill.tasks.held import Held
from tidemill.tasks.ledger import Ledger
from tidemill.tasks.queue import Queue
from tidemill.tasks.registry import Registry
from tidemill.tasks.remote.link import Link
from tidemill.tasks.remote.roster import Roster
from tidemill.tasks.remote.session import TROUBLE
from tidemill.tasks.status import SUCCEEDED, is_ended, is_live
from tidemill.tasks.storetime import StoreTime
from tidemill.tasks.task import (
    TASKS,
    Crashed,
    Delivered,
    Event,
    Finished,
    GivenBack,
    Reported,
    Started,
    Stopped,
)
from tidemill.worker.wire import TaskRef

log = get_logger("tidemill.jobs")

SWEEP_S = 0.05
"""How long a job runs before that is written down; what ends sooner is written down as ended only."""

PROGRESS_S = 0.5
"""How often the progress of a job is written down."""


PASSED_ON = "the task has passed on"
STORE_AWAY = "the store is away; connect again"


class Jobs:
    """What this node has claimed for its workers. `held` is for a `Keeper` to renew.

    `changed` is told of a link whose jobs have changed.
    """

    def __init__(
        self,
        registry: Registry,
        node: str,
        roster: Roster,
        errands: Errands,
        changed: Callable[[Link], None],
        *,
        timing: Timing,
        clock: Clock = boot_clock,
    ) -> None:
        self.held: dict[str, Held] = {}
        self.with_link: dict[str, Link] = {}
        self.ledger = Ledger(registry.store, StoreTime(registry.store, clock), self._settled, random.Random())
        self._registry = registry
        self._store = registry.store
        self._node = node
        self._roster = roster
        self._errands = errands
        self._changed = changed
        self._timing = timing
        self._clock = clock
        self._chains = Chains(registry)
        self._some_held = asyncio.Event()
        self._report_again: dict[str, float] = {}
        self._owed: dict[str, Finished] = {}
        """The answers of which a worker waits to hear what became of them."""

    # Taking

    def hold(self, found: Document, queue: Queue, term: int, sent: float) -> Held:
        """A task is in our hands, by a request that was sent then."""
        old = self.held.get(found.key)
        if old is not None:
            old.lost = True  # its lease ran out before we noticed, and it came back to us
            self.lose(old)
        held = Held(found, queue, Grant(found.key, term, sent + self._timing.trust_s), sent)
        self.held[held.key] = held
        self._some_held.set()
        return held

    def give(self, held: Held, link: Link) -> None:
        """That worker has the task, or will in a moment."""
        self.with_link[held.key] = link
        held.give_to(link.worker.id)

    def begun(self, held: Held) -> None:
        """Its worker has all of it."""
        self._run(held, 0.0)

    def resumed(self, held: Held, now: int) -> None:
        """Its worker has had all of it since before it was ours; `now` is the store's time."""
        held.noted = True
        self._run(held, max(now - (held.task.begun or now), 0) / 1000)

    def _run(self, held: Held, since_s: float) -> None:
        """It has run for so long, and for no longer than its queue allows."""
        held.begun = self._clock() - since_s
        timeout_s = held.queue.policy.timeout_s
        if timeout_s is not None:
            rest_s = max(timeout_s - since_s, 0.0)
            asyncio.get_running_loop().call_later(rest_s, self._overdue, held, timeout_s)

    def has(self, ref: TaskRef) -> bool:
        """Whether that attempt is in our hands, and not at its end."""
        held = self.held.get(ref.task)
        return held is not None and held.grant.term == ref.fence and not held.lost and not held.ending

    def of(self, link: Link, ref: TaskRef) -> Held | None:
        """The task, if that worker has it."""
        return self.held[ref.task] if self.has(ref) and self.with_link.get(ref.task) is link else None

    def all_of(self, link: Link) -> list[Held]:
        return [
            held for key, held in self.held.items() if self.with_link.get(key) is link and not held.ending
        ]

    # Ending

    def end(self, held: Held, event: Event) -> None:
        """Write its last move down soon. What is said of it after that counts for nothing."""
        if not held.ending:
            held.ending = True
            self.ledger.put(held, event)

    def answered(self, held: Held, event: Finished) -> None:
        """Write down what a worker made of it, and then tell the worker what became of that."""
        self._owed[held.key] = event
        self.end(held, event)

    def reset(self, link: Link, jobs: Iterable[Held], reason: str, *, leaving: bool) -> None:
        """The worker is gone, for that reason if it is known: its jobs go to others."""
        told = f"worker {link.worker.name} went away with it" + (f": {reason}" if reason else "")
        for held in jobs:
            if self.with_link.get(held.key) is link and not held.ending and not held.lost:
                self.end(held, GivenBack("its node was leaving") if leaving else Crashed(told))

    async def take_late(self, link: Link, ref: TaskRef, value: Any, onward: str | None) -> None:
        """A result of a task that this node does not have in hands: it counts, if it is the first."""
        worker = link.worker
        try:
            key, task, document = await self._registry.get(ref.task)
            if is_ended(task.status):
                done = task.status == SUCCEEDED and task.worker == worker.id
                if not done:
                    self._roster.count(worker.id, worker.name, dropped=1)
                return await link.settle(ref, done, None if done else "the task has ended")
            if task.queue != link.queue or ref.fence > document.term:
                return await link.settle(ref, False, "this attempt is not known")
            await self._registry.change(key, Delivered(value, worker.id, onward), release=True)
        except (NoSuchTask, IllegalMove, Conflict) as error:
            self._roster.count(worker.id, worker.name, dropped=1)
            return await link.settle(ref, False, str(error))
        log.info("result.late", task=key, worker=worker.id, fence=ref.fence)
        self._roster.count(worker.id, worker.name, succeeded=1)
        self._follow_up(key, onward)
        return await link.settle(ref, True)

    def _settled(self, held: Held) -> None:
        """It is out of our hands."""
        if self.held.get(held.key) is not held or not (held.ending or held.lost):
            return
        del self.held[held.key]
        self._report_again.pop(held.key, None)
        link = self.with_link.pop(held.key, None)
        # Lost or not: a renewal may have found the lease let go of, which that very write did.
        written = not is_live(held.task.status)
        if written and held.task.status == SUCCEEDED:
            self._follow_up(held.key, held.task.onward)
            if link is not None:
                self._roster.count(link.worker.id, link.worker.name, succeeded=1)
        answer = self._owed.pop(held.key, None)
        if link is None:
            return
        if not link.closed:
            self._changed(link)
        ref = TaskRef(held.key, held.grant.term)
        if answer is not None:
            self._errands.begin(self._tell(link, ref, answer, written))
        elif held.lost and not link.closed:
            self._errands.begin(link.withdraw(ref, PASSED_ON))

    async def _tell(self, link: Link, ref: TaskRef, answer: Finished, written: bool) -> None:
        """Tell a worker what became of its answer. Not written here, a result may count all the same."""
        if written:
            return await link.settle(ref, True)
        if answer.status != SUCCEEDED:
            self._roster.count(link.worker.id, link.worker.name, dropped=1)
            return await link.settle(ref, False, PASSED_ON)
        try:
            return await self.take_late(link, ref, answer.result, answer.onward)
        except StoreError:
            # Those who can bring it again do so, to whichever node has the store.
            return await link.close(TROUBLE, STORE_AWAY)

    def _follow_up(self, key: str, onward: str | None) -> None:
        if onward is not None:
            self._errands.begin(self._pass_on(key))

    async def _pass_on(self, key: str) -> None:
        key, _, document = await self._registry.get(key)
        await self._chains.pass_on(key, document)

    def lose(self, held: Held) -> None:
        """The lease ran out or passed on: its worker works for nothing."""
        if not held.ending:
            log.warning("task.lost", task=held.key, term=held.grant.term)
            self._settled(held)

    def _overdue(self, held: Held, timeout_s: float) -> None:
        if self.held.get(held.key) is held and not held.ending and not held.lost:
            self._take_away(held, Stopped(f"it took longer than {timeout_s:g} s"))

    def _take_away(self, held: Held, event: Stopped) -> None:
        link = self.with_link.get(held.key)
        self.end(held, event)
        if link is not None:
            self._errands.begin(link.withdraw(TaskRef(held.key, held.grant.term), event.reason))

    # While they run

    async def sweep(self) -> None:
        """Write down which jobs run, and how far they are, a few times a second."""
        while True:
            await self._some_held.wait()
            await asyncio.sleep(SWEEP_S)
            if not self.held:
                self._some_held.clear()
            now = self._clock()
            for held in self.held.values():
                if (
                    held.begun is not None
                    and held.begun <= now - SWEEP_S
                    and not held.ending
                    and not held.lost
                ):
                    self._note(held, now)

    def _note(self, held: Held, now: float) -> None:
        if not held.noted:
            held.noted = True
            self.ledger.put(held, Started(self._node, held.worker))
        elif held.progress is not None and now >= self._report_again.get(held.key, 0.0):
            progress, held.progress = held.progress, None
            self._report_again[held.key] = now + PROGRESS_S
            self.ledger.put(held, Reported(progress))

    async def heed_cancels(self) -> None:
        """Take the jobs away that somebody wants ended."""
        if not self.held:
            return
        for key, document in (await self._store.get_many(TASKS, list(self.held))).items():
            held = self.held.get(key)
            asked = bool(document.body.get("cancel")) and document.term == (held.grant.term if held else 0)
            if held is not None and asked and not held.ending:
                held.read(document)
                self._take_away(held, Stopped(held.task.reason or "cancelled", True))
