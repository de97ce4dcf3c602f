"""How many tasks of a queue a node has room for. Pure.

A node runs as many tasks as it has slots. Of queues whose tasks are quick it takes some more, so that a slot
never waits for the store; of others it takes none that it cannot begin, as another node might.
"""

from collections.abc import Mapping

AHEAD_S = 0.1
"""How much work of quick queues a node has at hand, for each slot that no slow task has."""

QUICK_S = 0.02
"""Tasks that take less are quick. A queue of which nothing has been run is not."""

MOST_AHEAD = 1000


class Room:
    """What this node has seen of its queues. Slow tasks are believed sooner than quick ones."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._mean_s: dict[str, float] = {}

    def took(self, queue: str, seconds: float) -> None:
        """A task of that queue took so long."""
        mean_s = self._mean_s.get(queue, seconds)
        self._mean_s[queue] = mean_s + (seconds - mean_s) * (0.3 if seconds > mean_s else 0.05)

    def is_quick(self, queue: str) -> bool:
        return self._mean_s.get(queue, QUICK_S) < QUICK_S

    def left(self, queue: str, held: Mapping[str, int]) -> int:
        """How many more tasks of the queue to take, when so many of each queue are in hands."""
        quick = sum(count for name, count in held.items() if self.is_quick(name))
        slow = sum(held.values()) - quick
        free = self._slots - slow
        if free <= 0:
            return 0
        if not self.is_quick(queue):
            return free
        ahead = min(MOST_AHEAD, int(free * AHEAD_S / max(self._mean_s[queue], 1e-6)))
        return max(free + ahead - quick, 0)
