"""The seam of runtimes: how the pipeline workers of one pipeline are run."""

from collections.abc import Sequence
from typing import Protocol

from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.state.merges import Merged, MergeUnit
from tidemill.pipeline.task import Report, StepTask


class Runtime(Protocol):
    """Runs steps on pipeline workers. One caller at a time; `merge` may run beside a step.

    All runtimes run the same pipeline workers on the same files, so a pipeline may be opened by another one
    at any version.
    """

    name: str
    workers: int
    background: bool
    """Whether `merge` may run in another thread while a step runs."""

    def check(self, circuit: Circuit) -> None:
        """Raise `Refused` for a circuit that this runtime cannot run."""
        ...

    def prepare(self, circuit: Circuit) -> None:
        """Get ready for the steps of a circuit."""
        ...

    def run(self, task: StepTask, deadline_s: float) -> tuple[Report, ...]:
        """Run a step to its end: the reports of every stage of every pipeline worker.

        Raises `StepFailed` when the machinery failed or the deadline passed; the step can be run again, and
        what a failed attempt wrote is referred to by nobody. Errors of the data are in the reports.
        """
        ...

    def cancel(self) -> None:
        """Let the step that runs fail soon, if it can be helped. From any thread; merges go on."""
        ...

    def merge(self, units: Sequence[MergeUnit]) -> tuple[Merged, ...]:
        """Merge runs. Raises `StepFailed` when the machinery failed; it can be run again."""
        ...

    def close(self) -> None:
        """Stop what runs. Safe to repeat."""
        ...
