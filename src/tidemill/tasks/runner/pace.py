"""How many jobs to hand to one runner at a time. Pure."""

from collections import OrderedDict

_AHEAD_S = 0.005
"""A runner is handed as much as it does in so long: enough to never wait, little enough to spread well."""

_MOST = 64
_QUEUES = 1000


class Pace:
    """How long jobs of each queue take, as seen so far. Slow ones are believed sooner than quick ones."""

    def __init__(self) -> None:
        self._mean_s: OrderedDict[str, float] = OrderedDict()

    def took(self, queue: str, seconds: float) -> None:
        """A job of the queue took so long."""
        mean_s = self._mean_s.get(queue)
        if mean_s is None:
            self._mean_s[queue] = seconds
            if len(self._mean_s) > _QUEUES:
                self._mean_s.popitem(last=False)
        else:
            self._mean_s[queue] = mean_s + (seconds - mean_s) * (0.5 if seconds > mean_s else 0.1)

    def depth(self, queue: str) -> int:
        """How many jobs a runner may have when the last of them is of that queue."""
        mean_s = self._mean_s.get(queue)
        return 1 if mean_s is None else max(1, min(_MOST, int(_AHEAD_S / max(mean_s, 1e-6))))
