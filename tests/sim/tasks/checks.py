"""What must hold of tasks at every accepted write, and all the time."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sim.checks import Breach, Checks
from sim.tasks.moves import explain
from sim.world import World
from tidemill.store import Collection, Document, Done, Outcome, Write
from tidemill.store.backends.memory import MemoryServer
from tidemill.tasks.pieces import LOGS
from tidemill.tasks.queue import Queue
from tidemill.tasks.status import CLAIMED, QUEUED, is_ended, is_live, is_parked
from tidemill.tasks.task import (
    DELAYED,
    TASKS,
    TURN_BITS,
    Crashed,
    Due,
    Event,
    Finished,
    RetryAsked,
    Stopped,
    Task,
    task_of,
)

if TYPE_CHECKING:
    from sim.tasks.node import TaskNode

LOOK_EVERY = 8


class TaskServer(MemoryServer):
    """A memory server that shows every new version of a task, with the one before."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__(now_ms)
        self.on_task: Callable[[Document | None, Document], None] = lambda before, after: None

    def put(self, collection: Collection, document: Document, nonce: int) -> None:
        before = self.table(collection).get(document.key)
        super().put(collection, document, nonce)
        if collection.name == TASKS.name:
            self.on_task(before, document)


class TaskChecks(Checks):
    """Knows every version of every task, who wrote it, and what each node has in hands.

    `writer` is the token of whoever the server is writing for.
    """

    def __init__(
        self, world: World, server: TaskServer, queues: Mapping[str, Queue], maxthreads: Callable[[str], int]
    ) -> None:
        super().__init__(world, server)
        self.nodes: list[TaskNode] = []
        self.writer = ""
        self.began: Counter[str] = Counter()
        """How often a task was begun; with `recorded`, how often what came of that was written down."""
        self.recorded: Counter[str] = Counter()
        self.clients: set[str] = set()
        """Under which names clients write; whoever else does is a node."""
        self.removed = 0
        self._queues = queues
        self._maxthreads = maxthreads
        self._events = 0
        self._made: dict[str, bool] = {}
        """Every task that there ever was, and whether it must still be there."""
        self._keys: dict[str, str] = {}
        self._ended: Counter[str] = Counter()
        self._latest: dict[str, Task] = {}
        self._recovering: dict[str, int] = {}
        server.on_task = self.changed

    def in_vain(self) -> int:
        """How many runs of tasks came to nothing, since their node was lost or had to let go."""
        return sum(max(times - self.recorded[task], 0) for task, times in self.began.items())

    # All the time

    def check_beliefs(self) -> None:
        """Who trusts a lease has it, and no job goes on that its node has lost."""
        self._events += 1
        if self._events % LOOK_EVERY:
            return
        for node in self.nodes:
            if node.loop.lives and node.execution is not None and node.runners is not None:
                held = node.execution.held
                now = node.loop.time()
                for one in held.values():
                    if not one.lost and not one.ending and one.grant.trusted(now):
                        self._must_stand(f"{node.name}'s task", one.fence)
                for run in node.runners.going:
                    mine = held.get(run.job.id)
                    if not run.told and (mine is None or mine.lost or mine.grant.term != run.job.fence):
                        raise Breach(f"{node.name} goes on with {run.job.id}, which it has lost")

    # At every accepted write

    def handling(self) -> None:
        """The versions before are known from the server itself."""

    def check_caps(self) -> None:
        """They are checked with every task that is claimed."""

    def accepted(self, writes: Sequence[Write], outcomes: Sequence[Outcome]) -> None:
        for write, outcome in zip(writes, outcomes, strict=True):
            if not isinstance(outcome, Done):
                continue
            self.accepted_writes += 1
            if write.collection.name == TASKS.name and write.body is None:
                self._made[write.key] = False
                self._ended.pop(write.key, None)
                self._check_removed(write.key, self._latest.pop(write.key))
            if write.collection == LOGS and write.body is not None:
                self._check_piece(write.key)

    def changed(self, before: Document | None, after: Document) -> None:
        """A task has a new version."""
        task = self._latest[after.key] = task_of(after)
        if before is None:
            self._check_made(after.key, task)
            return
        was = task_of(before)
        if after.revision <= before.revision or after.term < before.term:
            raise Breach(f"revision or term of {after.key} fell")
        if after.term != before.term:
            self._check_claim(before, was, after, task)
        else:
            self._check_move(before, was, after, task)
        if is_ended(task.status) and not is_ended(was.status):
            self._ended[after.key] += 1
            if self._ended[after.key] > 1:
                raise Breach(f"{after.key} was completed twice")

    def _check_made(self, key: str, task: Task) -> None:
        self._made[key] = True
        if task.key is not None and self._keys.setdefault(task.key, key) != key:
            raise Breach(f"{key} and {self._keys[task.key]} have the key {task.key}")

    def _check_removed(self, key: str, was: Task) -> None:
        """Anybody removes what nobody has in hands; a node only what its queue keeps no longer."""
        if is_live(was.status):
            raise Breach(f"{key} was removed while a node had it in hands")
        keep_s = self._queues[was.queue].keep_s
        age_ms = self.server.now_ms() - (was.ended or 0)
        if self.writer not in self.clients and not (
            is_ended(was.status) and keep_s is not None and age_ms >= 1000 * keep_s
        ):
            raise Breach(f"{key} was removed before its time, at {was.status}")
        self.removed += self.writer not in self.clients

    def _check_claim(self, before: Document, was: Task, after: Document, task: Task) -> None:
        if before.expire > self.server.now_ms():
            raise Breach(f"{after.key} was taken from {before.holder}, who holds it")
        if is_live(was.status):
            self._recovering[after.key] = after.term
            allowed = was == task
        else:
            allowed = was.status == QUEUED and was.rank != DELAYED and task.status == CLAIMED
            self._check_room(task)
        if not allowed:
            raise Breach(f"{after.key} was claimed, with status {was.status}, to be at {task.status}")

    def _check_room(self, task: Task) -> None:
        live = [found.body for found in self.server.table(TASKS).values() if is_live(found.body["status"])]
        threads = self._queues[task.queue].threads
        in_queue = sum(body["queue"] == task.queue for body in live)
        if threads is not None and in_queue > threads:
            raise Breach(f"{in_queue} tasks of queue {task.queue} run, {threads} may")
        node = str(task.node)
        on_node = sum(body["node"] == node for body in live)
        if on_node > self._maxthreads(node):
            raise Breach(f"{on_node} tasks run on {node}, {self._maxthreads(node)} may")

    def _check_move(self, before: Document, was: Task, after: Document, task: Task) -> None:
        """A move that a task can make, by one who may make it."""
        key, policy, now = after.key, self._queues[task.queue].policy, self.server.now_ms()
        # The leader holds what it recovers under a name of its own.
        holder = (before.holder or "").removesuffix("/recovery")
        holds = self.writer == holder or not is_live(was.status)
        recovered = self._recovering.get(key) == before.term
        event = explain(was, task, policy, now, holds=holds, recovered=recovered)
        if event is None and not holds:
            raise Breach(f"{key} was changed by {self.writer}, and {before.holder} holds it")
        if event is None:
            raise Breach(f"{key} made a move that it cannot make, from {was.status} to {task.status}")
        self._check_event(key, event, before.term, was, task)

    def _check_event(self, key: str, event: Event, term: int, was: Task, task: Task) -> None:
        if isinstance(event, RetryAsked):
            self._ended[key] = 0
        if isinstance(event, Due) and was.turn >> TURN_BITS > self.server.now_ms():
            raise Breach(f"{key} is due before its time")
        if isinstance(event, Finished) and task.result != {"term": term}:
            raise Breach(f"{key} has the result {task.result}, and was held under term {term}")
        if isinstance(event, Finished | Stopped | Crashed) and not (
            isinstance(event, Crashed) and event.node_lost
        ):
            self.recorded[key] += 1
            if task.stdout not in (None, f"under term {term}"):
                raise Breach(f"{key} printed {task.stdout!r}, and was held under term {term}")

    def _check_piece(self, name: str) -> None:
        key, term = name.split("/")[:2]
        found = self.server.table(TASKS).get(key)
        if found is None or found.term != int(term) or found.expire <= self.server.now_ms():
            raise Breach(f"what {key} printed under term {int(term)} was accepted, which has passed")

    # At the end

    def must_exist(self, key: str) -> None:
        """Somebody was told that such a task was made, be it deleted since."""
        if key not in self._made:
            raise Breach(f"{key} was said to be made, and was not")

    def check_lost(self) -> None:
        there = self.server.table(TASKS)
        missing = [key for key, needed in self._made.items() if needed and key not in there]
        if missing:
            raise Breach(f"tasks were lost: {missing}")

    def unfinished(self) -> list[str]:
        return [
            f"{key} ({found.body['status']})"
            for key, found in self.server.table(TASKS).items()
            if not is_ended(found.body["status"]) and not is_parked(found.body["status"])
        ]

    def in_hands(self) -> int:
        """How many tasks nodes that live believe to have."""
        return sum(
            len(node.execution.held) for node in self.nodes if node.loop.lives and node.execution is not None
        )


class Recorder:
    """Tells the checks for whom the server writes."""

    def __init__(self, checks: TaskChecks, who: str) -> None:
        self._checks = checks
        self._who = who

    def handling(self) -> None:
        self._checks.writer = self._who

    def accepted(self, writes: Sequence[Write], outcomes: Sequence[Outcome]) -> None:
        self._checks.accepted(writes, outcomes)

    def check_caps(self) -> None:
        self._checks.check_caps()
