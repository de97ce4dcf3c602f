"""The runs that make up every state now: those of the last version, and what steps and merges changed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tidemill.pipeline.state.spec import RunRef


@dataclass(frozen=True, slots=True)
class LiveRuns:
    """The runs of each state by name, as they are before `step`. A value: a step that fails has changed
    nothing, and one who reads beside the steps sees all of a step or nothing."""

    by_state: dict[str, tuple[RunRef, ...]] = field(default_factory=dict)
    step: int = 0

    def of(self, state: str) -> tuple[RunRef, ...]:
        return self.by_state.get(state, ())

    def with_changes(self, added: Iterable[RunRef], removed: Iterable[str]) -> "LiveRuns":
        """The runs once a step or merge is adopted: new ones come last, as the youngest."""
        gone = set(removed)
        found = {
            state: [run for run in runs if run.name not in gone] for state, runs in self.by_state.items()
        }
        for run in added:
            found.setdefault(run.state, []).append(run)
        return LiveRuns({state: tuple(runs) for state, runs in found.items() if runs}, self.step)

    def with_merge(self, inputs: Iterable[str], added: Iterable[RunRef]) -> "LiveRuns":
        """The runs once a merge is adopted: its result comes first, as the oldest."""
        rest = self.with_changes((), inputs).by_state
        for run in added:
            rest = {**rest, run.state: (run, *rest.get(run.state, ()))}
        return LiveRuns(rest, self.step)

    def has(self, names: Iterable[str]) -> bool:
        """Whether all these runs are still there."""
        return set(names) <= set(self.names())

    def only(self, states: Iterable[str]) -> "LiveRuns":
        """Without the states that no operator has any more."""
        kept = set(states)
        return LiveRuns({state: runs for state, runs in self.by_state.items() if state in kept}, self.step)

    def at(self, step: int) -> "LiveRuns":
        """The same before another step."""
        return replace(self, step=step)

    def all(self) -> Iterator[RunRef]:
        return (run for runs in self.by_state.values() for run in runs)

    def names(self) -> Iterator[str]:
        return (run.name for run in self.all())
