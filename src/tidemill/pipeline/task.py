"""What a pipeline worker is told to do, and what it tells back: plain values that travel as JSON."""

import msgspec

from tidemill.pipeline.log.segment import SegmentRef
from tidemill.pipeline.plan.node import Source
from tidemill.pipeline.state.forget import Forget
from tidemill.pipeline.state.spec import RunRef


class StepTask(msgspec.Struct, frozen=True):
    """One step: the same task on the same files always gives the same result.

    New files go below `place`, whose name carries term and step. `segments` lists, for each table by name,
    the appended rows in order. `runs` is the state before the step. `fresh` nodes run for the first time.
    """

    folder: str
    term: int
    step: int
    clock_s: float
    segments: dict[str, tuple[SegmentRef, ...]]
    runs: dict[str, tuple[RunRef, ...]]
    fresh: frozenset[int] = frozenset()
    round_rows: int = 1_000_000
    since_s: float = 0.0
    highest: dict[str, int] = {}
    forget: dict[str, Forget] = {}

    @property
    def place(self) -> str:
        return f"{self.folder}/t{self.term}/s{self.step}"

    @property
    def run_names(self) -> frozenset[str]:
        return frozenset(run.name for runs in self.runs.values() for run in runs)

    def segments_of(self, table: Source) -> tuple[SegmentRef, ...]:
        """What was appended to this table, and not to an earlier one of its name."""
        return tuple(ref for ref in self.segments.get(table.table, ()) if ref.epoch == table.epoch)


class Report(msgspec.Struct, frozen=True):
    """What one stage of a step made on one pipeline worker; with `error`, nothing that counts.

    `seconds` is the time that each node took here, by position.
    """

    worker: int
    stage: int
    added: tuple[RunRef, ...] = ()
    removed: tuple[str, ...] = ()
    outputs: dict[str, SegmentRef] = {}
    rows_out: dict[int, int] = {}
    seconds: dict[int, float] = {}
    error: str = ""
    view: str = ""
    operator: str = ""
    node: int = -1
    late: dict[str, int] = {}
    highest: dict[str, int] = {}
