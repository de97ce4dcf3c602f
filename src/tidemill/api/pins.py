"""The pins of a pipeline: versions that are kept for as long as somebody wants them."""

from collections.abc import Callable, Iterator, Mapping

from tidemill.pipeline.engine import Engine
from tidemill.pipeline.log.root import Pin


class Pins(Mapping[str, int]):
    """Pinned versions by name, each with the last step that is in it.

    A pin keeps the state as it was, and the log since then, until it is removed. It survives closing.
    """

    def __init__(self, engine: Callable[[], Engine], commit: Callable[[], int]) -> None:
        self._engine = engine
        self._commit = commit

    def add(self, name: str) -> int:
        """Commit a version now and pin it; the last step that is in it, durable on return.

        Repeating it changes nothing while there was no further step, and raises `NameTaken` after one.
        """
        engine = self._engine()
        engine.pins.add(name, self._commit())
        return self[name]

    def remove(self, name: str) -> None:
        """Take the pin out; what only it kept is swept in time. Raises `NoSuchName` when there is none."""
        self._engine().pins.remove(name)

    def __getitem__(self, name: str) -> int:
        return {pin.name: pin.version.step - 1 for pin in self._all()}[name]

    def __iter__(self) -> Iterator[str]:
        return (pin.name for pin in self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> tuple[Pin, ...]:
        return self._engine().root.pins
