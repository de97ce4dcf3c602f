"""What must hold of partitions at every moment."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from sim.checks import Breach, Checks
from sim.world import World
from tidemill.cluster import PARTITIONS, LeaseLost, Work
from tidemill.cluster.partitions import DONE
from tidemill.store import Collection as Documents
from tidemill.store import Document, Done, Fence, Outcome, Write
from tidemill.store.backends.memory import MemoryServer

EFFECTS = Documents("effects")
LOOK_EVERY = 8


class Tasks:
    """A source of tasks that keeps its own books, as if in a database that never fails."""

    def __init__(self, count: int) -> None:
        self.left = [f"{at:03d}" for at in range(count)]

    async def more(self, room: int, known: Collection[str]) -> Mapping[str, bytes]:
        return {name: name.encode() for name in [name for name in self.left if name not in known][:room]}

    async def finished(self, names: Sequence[str]) -> None:
        self.left = [name for name in self.left if name not in names]


class PartitionChecks(Checks):
    """Watches what handlers believe, and every write about partitions that the server accepts."""

    def __init__(self, world: World, server: MemoryServer) -> None:
        super().__init__(world, server)
        self.completed: set[tuple[str, int]] = set()
        self.done: Counter[str] = Counter()
        self.running: list[Callable[[], Sequence[tuple[str, Work]]]] = []
        self._before: dict[str, Document] = {}
        self._events = 0

    def check_beliefs(self) -> None:
        """Whoever runs a handler under a lease that it trusts has that lease; one generation at a time.

        A wrong belief lasts for a while, so that it is enough to look after every few events.
        """
        self._events += 1
        if self._events % LOOK_EVERY:
            return
        super().check_beliefs()
        generations = set()
        for running in self.running:
            for who, work in running():
                fence = trusted(work)
                if fence is not None:
                    self._must_stand(f"{who}'s handler", fence)
                    if work.handler == "feed":
                        generations.add(work.key.split("-")[0])
        if len(generations) > 1:
            raise Breach(f"generations {sorted(generations)} run at once")

    def handling(self) -> None:
        self._before = dict(self.server.table(PARTITIONS))

    def accepted(self, writes: Sequence[Write], outcomes: Sequence[Outcome]) -> None:
        for write, outcome in zip(writes, outcomes, strict=True):
            if not isinstance(outcome, Done) or write.body is None:
                continue
            self.accepted_writes += 1
            if write.collection == EFFECTS:
                fence = Fence(PARTITIONS, write.body["partition"], write.body["term"])
                self._must_stand("an accepted effect", fence)
            if write.collection == PARTITIONS and write.body["state"] == DONE:
                self._check_done(self._before[write.key])

    def _check_done(self, before: Document) -> None:
        """It was in progress, its handler came to the end under that very term, and it is the first."""
        if before.expire <= self.server.now_ms():
            raise Breach(f"{before.key} is done, but nobody had it")
        if (before.key, before.term) not in self.completed:
            raise Breach(f"{before.key} is done under term {before.term}, but was not carried through")
        self.done[before.key] += 1
        if self.done[before.key] > 1:
            raise Breach(f"{before.key} was done twice")

    def check_caps(self) -> None:
        """There are no caps in this world."""

    def holders(self) -> Counter[str]:
        """How many partitions each token holds now."""
        now = self.server.now_ms()
        return Counter(
            found.holder or "" for found in self.server.table(PARTITIONS).values() if found.expire > now
        )

    def unheld(self, handler: str) -> int:
        now = self.server.now_ms()
        there = self.server.table(PARTITIONS).values()
        return sum(found.body["handler"] == handler and found.expire <= now for found in there)


def trusted(work: Work) -> Fence | None:
    try:
        return work.fence()
    except LeaseLost:
        return None
