"""Wake-ups: the same for a database that pushes and for one that must be asked."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class Watch:
    """One watcher's flag. `wait` returns at once if anything happened since it last returned."""

    def __init__(self, poll_s: float) -> None:
        self._poll_s = poll_s
        self._flag = asyncio.Event()

    def set(self) -> None:
        self._flag.set()

    async def wait(self) -> bool:
        """Return True when told of a change, False after `poll_s` without one."""
        try:
            async with asyncio.timeout(self._poll_s):
                await self._flag.wait()
        except TimeoutError:
            return False
        self._flag.clear()
        return True


class Watchers:
    """The watchers of one store, by channel."""

    def __init__(self) -> None:
        self._heard: set[str] = set()
        # Dicts and not sets: wake-ups go out in the order of arrival, so that a simulated run repeats.
        self._watches: dict[str, dict[Watch, None]] = {}

    def not_heard_yet(self, channels: Sequence[str]) -> list[str]:
        """Those of the channels that the backend must listen to from now on; each is named once."""
        fresh = [name for name in channels if name not in self._heard]
        self._heard.update(fresh)
        return fresh

    def notify(self, name: str | None) -> None:
        """Wake those who hear that channel; all of them when it is not known what changed."""
        groups = self._watches.values() if name is None else [self._watches.get(name, {})]
        for group in groups:
            for watch in group:
                watch.set()

    @contextmanager
    def watching(self, channels: Sequence[str], poll_s: float) -> Iterator[Watch]:
        watch = Watch(poll_s)
        groups = [self._watches.setdefault(name, {}) for name in channels]
        for group in groups:
            group[watch] = None
        try:
            yield watch
        finally:
            for group in groups:
                del group[watch]
