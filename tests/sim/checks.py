"""What must hold at every moment. A breach ends the run."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from sim.world import World
from tidemill.cluster import LEADER, LEASES
from tidemill.store import Collection, Done, Fence, Lost, Outcome, Write
from tidemill.store.backends.memory import MemoryServer

LEDGER = Collection("ledger")
ENTRIES = Collection("entries")
TASKS = Collection("tasks", fields=(("status", "integer"),), indexes=(("status",),))
QUEUED, RUNNING, DONE = -2, 0, 1

EVERYWHERE_CAP = 4
NODE_CAP = 2


class Breach(AssertionError):
    """Something happened that never may."""


class Checks:
    """Watches the server's documents, the writes it accepts, and what the nodes believe."""

    def __init__(self, world: World, server: MemoryServer) -> None:
        self.world = world
        self.server = server
        self.accepted_writes = 0
        self.acts = 0
        self.marks: Counter[str] = Counter()
        self.told: dict[str, Outcome] = {}
        self.believers: list[Callable[[], tuple[str, Fence] | None]] = []
        world.after_event.append(self.check_beliefs)

    def acting(self, who: str, fence: Fence) -> None:
        """Somebody is about to act under a lease that it trusts."""
        self.acts += 1
        self._must_stand(who, fence)

    def check_beliefs(self) -> None:
        """Whoever believes to hold a lease is the one who has it in the store; so there are never two."""
        for believer in self.believers:
            belief = believer()
            if belief is not None:
                self._must_stand(*belief)

    def accepted(self, writes: Sequence[Write], outcomes: Sequence[Outcome]) -> None:
        """The server has just handled these writes."""
        for write, outcome in zip(writes, outcomes, strict=True):
            if not isinstance(outcome, Done) or write.body is None:
                continue
            self.accepted_writes += 1
            mark = write.body.get("mark")
            if mark is not None:
                self.marks[mark] += 1
            if write.collection in (LEDGER, ENTRIES):
                self._must_stand("an accepted write", Fence(LEASES, LEADER, write.body["term"]))
            if write.collection == LEDGER and write.body["n"] != self._ledger_before + 1:
                raise Breach(f"the ledger went from {self._ledger_before} to {write.body['n']}")
        self.check_caps()

    def handling(self) -> None:
        """The server is about to handle writes."""
        ledger = self.server.table(LEDGER).get(LEDGER.name)
        self._ledger_before = 0 if ledger is None else int(ledger.body["n"])

    def check_caps(self) -> None:
        holders: Counter[Any] = Counter(
            found.holder for found in self.server.table(TASKS).values() if found.body.get("status") == RUNNING
        )
        if holders.total() > EVERYWHERE_CAP:
            raise Breach(f"{holders.total()} tasks run, {EVERYWHERE_CAP} may")
        for holder, count in holders.items():
            if count > NODE_CAP:
                raise Breach(f"{count} tasks run on {holder}, {NODE_CAP} may")

    def check_told(self) -> None:
        """At the end: what writers were told agrees with what happened."""
        for mark, times in self.marks.items():
            if times > 1:
                raise Breach(f"write {mark} was applied {times} times")
        for mark, outcome in self.told.items():
            happened = self.marks[mark] == 1
            if isinstance(outcome, Done) and not happened:
                raise Breach(f"the writer of {mark} was told that it was done, and it was not")
            if isinstance(outcome, Lost) and happened:
                raise Breach(f"the writer of {mark} was told that it was lost, and it was done")

    def leader(self) -> str | None:
        """Who leads, as the store has it."""
        lease = self.server.table(LEASES).get(LEADER)
        return lease.holder if lease is not None and lease.expire > self.server.now_ms() else None

    def undone(self) -> int:
        return sum(found.body.get("status") != DONE for found in self.server.table(TASKS).values())

    def _must_stand(self, who: str, fence: Fence) -> None:
        if not self.server.stands(fence):
            found = self.server.table(fence.collection).get(fence.key)
            standing = "nobody ever had it" if found is None else f"the store is at term {found.term}"
            raise Breach(
                f"{who} is under term {fence.term} of {fence.key}, but {standing}, or that has run out"
            )
