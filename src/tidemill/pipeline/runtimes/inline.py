"""The inline runtime: all pipeline workers in this process, one after the other. For tests and simulation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidemill.pipeline.errors import NotOpen, Refused
from tidemill.pipeline.exchange import Layout, Parcel
from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.plan.node import SparkSelect
from tidemill.pipeline.state.files import RunFiles
from tidemill.pipeline.state.merges import Merged, MergeUnit, run_merge
from tidemill.pipeline.task import Report, StepTask
from tidemill.pipeline.worker import PipelineWorker


class InlineRuntime:
    """Runs a step as plain calls. Has no deadline: nothing here can hang but the machine itself."""

    name = "inline"
    background = False

    def __init__(self, files: RunFiles, workers: int = 2) -> None:
        self.files = files
        self.workers = workers
        self._workers: tuple[PipelineWorker, ...] | None = None

    def check(self, circuit: Circuit) -> None:
        for position, node in enumerate(circuit.nodes):
            if isinstance(node, SparkSelect):
                views = ", ".join(circuit.views_above(position))
                parts = [*(one for one in node.columns if "/*" in one), *([node.where] if node.where else [])]
                text = f"{', '.join(parts):.200}: runs in Spark only; use the batch runtime, not inline"
                raise Refused(f"view {views}: {text}")

    def prepare(self, circuit: Circuit) -> None:
        self.check(circuit)
        layout = Layout(self.workers)
        self._workers = tuple(PipelineWorker(circuit, number, layout) for number in range(self.workers))

    def run(self, task: StepTask, deadline_s: float) -> tuple[Report, ...]:  # noqa: ARG002
        if self._workers is None:
            raise NotOpen("the inline runtime has no circuit")
        counter = Counter()
        return tuple(
            worker.run_with(counter.window(worker.number), stage, task, self.files)
            for stage in range(self._workers[0].circuit.stage_count)
            for worker in self._workers
        )

    def cancel(self) -> None:
        """Plain calls end by themselves."""

    def merge(self, units: Sequence[MergeUnit]) -> tuple[Merged, ...]:
        return tuple(run_merge(self.files, unit) for unit in units)

    def close(self) -> None:
        self._workers = None


class Counter:
    """Where the pipeline workers of one process leave parcels for each other."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], list[Parcel]] = {}

    def window(self, worker: int) -> "Window":
        return Window(self, worker)

    def put(self, parcel: Parcel) -> None:
        self._held.setdefault((parcel.to, parcel.stage), []).append(parcel)

    def take(self, worker: int, stage: int) -> list[Parcel]:
        return self._held.pop((worker, stage), [])


@dataclass(frozen=True, slots=True)
class Window:
    """The counter as one pipeline worker sees it: an `Exchange`."""

    counter: Counter
    worker: int

    def send(self, parcel: Parcel) -> None:
        self.counter.put(parcel)

    def receive(self, stage: int) -> Iterator[Parcel]:
        return iter(self.counter.take(self.worker, stage))
