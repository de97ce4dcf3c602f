"""The pipeline worker: runs the operators of the shards it owns, stage by stage, round by round.

A plain object without clock, thread or network: what it needs to know of a step is in the task, what others
send comes as parcels, what it makes is parcels and a report. The same task on the same files gives the same
rows, whoever runs it and however often.

A stage runs in *rounds* when its input is too large for memory: each is a small step of its own. A node
that is *fresh* runs for the first time. Fed by one that is not, it needs all rows so far: once the change
has gone through, *fill rounds* read them from the state of the older node, piece by piece.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeVar

from tidemill.base.ids import new_token
from tidemill.pipeline.errors import StepAborted
from tidemill.pipeline.exchange import Exchange as Exchanger
from tidemill.pipeline.exchange import Layout, Parcel
from tidemill.pipeline.log.segment import SegmentRef, read_segment, write_segment
from tidemill.pipeline.operators.operator import Access, Flow, Moment, Notes, Operator, Port
from tidemill.pipeline.operators.registry import build
from tidemill.pipeline.operators.rows import relabel
from tidemill.pipeline.plan.circuit import Circuit
from tidemill.pipeline.plan.node import AnyNode, Arrange, Exchange, Join, Mark, Source, SparkSelect, View
from tidemill.pipeline.state.files import RunFiles, RunWriter
from tidemill.pipeline.state.seal import seal, spill
from tidemill.pipeline.state.spec import Part
from tidemill.pipeline.state.spine import Spine
from tidemill.pipeline.task import Report, StepTask
from tidemill.pipeline.zset import ZSet, concat, consolidate

Arranged = Source | Arrange | View
Item = Parcel | Report
Filling = Mapping[int, ZSet] | None
"""In a fill round, a piece of the rows of an older node; None in a round of changes."""
T = TypeVar("T")

SPILL_BYTES = 64 << 20
"""What a state may hold in memory between two rounds."""


class Feed(Enum):
    """How an input reaches a node in a step."""

    CHANGE = "its change"
    ROWS = "all its rows, in fill rounds"
    NOTHING = "not at all: the node looks into its state"


class PipelineWorker:
    """The operators of one circuit for the shards of one worker number. Holds no state between stages."""

    def __init__(self, circuit: Circuit, number: int, layout: Layout) -> None:
        self.circuit = circuit
        self.number = number
        self.layout = layout
        self.operators = tuple(_operator(circuit, node) for node in circuit.nodes)
        self.by_stage = tuple(
            tuple(position for position, at in enumerate(circuit.stages) if at == stage)
            for stage in range(circuit.stage_count)
        )

    def run(self, stage: int, task: StepTask, files: RunFiles, inbox: Iterable[Parcel]) -> Iterator[Item]:
        """Run one stage of a step: yields parcels for later stages as they come, then one report.

        Data that cannot be computed ends in a report with the error. What was written before is then
        referred to by nobody.
        """
        files.keep(task.run_names)
        run = StageRun(self, stage, task, files)
        try:
            for arrived, last in rounds(self._arrivals(run, inbox), task.round_rows):
                yield from run.round(arrived, None, last=last)
            for piece, last in run.fill_pieces():
                yield from run.round({}, piece, last=last)
            yield run.report()
        except StepAborted as error:
            yield run.failure(error)

    def run_with(self, exchange: Exchanger, stage: int, task: StepTask, files: RunFiles) -> Report:
        """As `run`, with the others met through an exchange."""
        report: Report | None = None
        for item in self.run(stage, task, files, exchange.receive(stage)):
            if isinstance(item, Report):
                report = item
            else:
                exchange.send(item)
        assert report is not None
        return report

    def ports(self, position: int) -> tuple[Port, ...]:
        """What the output of a node is made of; an exchange puts out what goes in."""
        operator = self.operators[position]
        if operator is not None:
            return operator.ports()
        node = self.circuit.nodes[position]
        return (Port(node.schema),) if isinstance(node, SparkSelect) else self.ports(node.inputs[0])

    def _arrivals(self, run: "StageRun", inbox: Iterable[Parcel]) -> Iterator[Parcel]:
        if run.stage == 0:
            yield from run.appended()
        yield from inbox


@dataclass(slots=True)
class StageRun:
    """One stage of one step on one pipeline worker."""

    worker: PipelineWorker
    stage: int
    task: StepTask
    files: RunFiles
    spines: dict[tuple[int, int], Spine] = field(default_factory=dict)
    rows_out: dict[int, int] = field(default_factory=dict)
    changes: dict[str, list[ZSet]] = field(default_factory=dict)
    flows: dict[int, Flow] = field(default_factory=dict)
    fills: tuple[int, ...] = ()
    notes: Notes = field(default_factory=Notes)
    seconds: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fills = tuple(
            position for position, node in enumerate(self.nodes) if self.is_filled_from(position, node)
        )

    @property
    def writer(self) -> RunWriter:
        task = self.task
        return RunWriter(self.files, task.folder, task.term, task.step, self.stage, self.worker.number)

    @property
    def moment(self) -> Moment:
        task = self.task
        return Moment(task.step, task.clock_s, task.since_s, task.highest)

    @property
    def part(self) -> Part:
        return Part(self.worker.number, self.worker.layout.workers)

    @property
    def nodes(self) -> tuple[AnyNode, ...]:
        return self.worker.circuit.nodes

    def is_filled_from(self, position: int, node: AnyNode) -> bool:
        """Whether a fresh node of this stage, or an exchange out of it, needs all rows of this older one."""
        return isinstance(node, Arranged) and any(
            self._feed(consumer, at) is Feed.ROWS
            for consumer in self.worker.circuit.consumers[position]
            if self._takes_from_here(position, consumer)
            for at, index in enumerate(self.nodes[consumer].inputs)
            if index == position
        )

    def _takes_from_here(self, position: int, consumer: int) -> bool:
        stages = self.worker.circuit.stages
        if isinstance(self.nodes[consumer], Exchange | SparkSelect):
            return stages[position] == self.stage
        return stages[consumer] == self.stage

    def appended(self) -> Iterator[Parcel]:
        """The rows that the step brings to the tables, in the order of the appends."""
        shards = self.worker.layout.shards(self.worker.number)
        for position in self.worker.by_stage[0]:
            node = self.nodes[position]
            if isinstance(node, Source):
                for segment in self.task.segments_of(node):
                    rows = read_segment(self.files.blobs, segment, shards)
                    if len(rows):
                        # The rows of a delete by key have NULLs where the table allows none.
                        yield Parcel(self.worker.number, 0, position, 0, relabel(rows, node.schema))

    def round(self, arrived: Mapping[int, list[Parcel]], filling: Filling, *, last: bool) -> Iterator[Parcel]:
        """Run every operator of the stage once, on what arrived, or those that are fresh on what fills them.

        `last` says that nothing more will arrive, or that this is the last piece to fill from.
        """
        self.flows = {}
        for _, spine in self._own_spines():
            spill(spine, self.writer, SPILL_BYTES)
        for spine in self.spines.values():
            spine.next_round()
        for position, parcels in arrived.items():
            if self.worker.circuit.stages[position] < self.stage:
                self._carried_over(position, parcels)
        for position in self.worker.by_stage[self.stage]:
            started = time.perf_counter()
            self.flows[position] = self._step(position, arrived.get(position, ()), filling, last=last)
            self._note(position)
            self._charge(position, started)
        for position in self.worker.by_stage[self.stage]:
            started = time.perf_counter()
            yield from self._send(position, filling)
            self._charge(position, started)

    def _charge(self, position: int, started: float) -> None:
        """Note that a node took the time since then."""
        self.seconds[position] = self.seconds.get(position, 0.0) + time.perf_counter() - started

    def _carried_over(self, position: int, parcels: list[Parcel]) -> None:
        """A node of an earlier stage, whose change is used here; its state is read, not written."""
        self.flows[position] = self._flow(position, parcels)
        if isinstance(self.nodes[position], Arranged):
            self.spine(position).add(self.flows[position][0])

    def _step(self, position: int, parcels: Iterable[Parcel], filling: Filling, *, last: bool) -> Flow:
        node, operator = self.nodes[position], self.worker.operators[position]
        fresh = position in self.task.fresh
        if operator is None or (filling is not None and not fresh):
            return self._flow(position, parcels)
        if isinstance(node, Source):
            inputs = [self._flow(position, parcels)]
        else:
            inputs = [self._input(position, at, filling) for at in range(len(node.inputs))]
        access = Access(
            spines=_Lazy(lambda slot: self.spine(position, slot)),
            input_spines=_Lazy(lambda at: self.spine(node.inputs[at])),
            fresh=fresh,
            # The others are at their end before the first fill round, which reads what they have kept.
            last_round=last and (filling is not None or not (fresh and self.fills)),
            moment=self.moment,
            part=self.part,
            notes=self.notes,
        )
        try:
            return operator.step(inputs, access)
        except StepAborted as error:
            error.view = ", ".join(self.worker.circuit.views_above(position)[:3])
            error.operator = f"{type(node).__name__.lower()} {position}"
            error.node = position
            raise

    def _input(self, consumer: int, at: int, filling: Filling) -> Flow:
        """What a node gets from an input in this round."""
        producer = self.nodes[consumer].inputs[at]
        match self._feed(consumer, at):
            case Feed.CHANGE:
                return self.flows.get(producer) or self._flow(producer, ())
            case Feed.ROWS if filling is not None and producer in filling:
                return (filling[producer],)
        return self._flow(producer, ())

    def _feed(self, consumer: int, at: int) -> "Feed":
        """By its change; all of it, when the node is fresh and the input is not."""
        fresh, node = self.task.fresh, self.nodes[consumer]
        if consumer not in fresh or node.inputs[at] in fresh:
            return Feed.CHANGE
        if isinstance(node, Mark) and at == 0:
            return Feed.NOTHING  # it looks through the left's rows at the end
        if isinstance(node, Join):
            if not fresh.isdisjoint(node.inputs):
                return Feed.CHANGE  # the other side starts empty, hence so does the join
            if at == 1:
                return Feed.NOTHING  # its rows are found by those of the left
        return Feed.ROWS

    def _flow(self, position: int, parcels: Iterable[Parcel]) -> Flow:
        """The parcels that arrived for a node, port by port; empty where there are none."""
        by_port: dict[int, list[ZSet]] = {}
        for parcel in parcels:
            by_port.setdefault(parcel.port, []).append(parcel.rows)
        return tuple(
            concat(by_port.get(number, ()), port.schema, port.width)
            for number, port in enumerate(self.worker.ports(position))
        )

    def _note(self, position: int) -> None:
        node, flow = self.nodes[position], self.flows[position]
        self.rows_out[position] = self.rows_out.get(position, 0) + sum(map(len, flow))
        if isinstance(node, View) and len(flow[0]):
            self.changes.setdefault(node.name, []).append(flow[0])

    def _send(self, position: int, filling: Filling) -> Iterator[Parcel]:
        """Parcels for the later stages that use a node's output."""
        circuit, carried = self.worker.circuit, set[int]()
        for consumer in circuit.consumers[position]:
            node, stage = circuit.nodes[consumer], circuit.stages[consumer]
            if isinstance(node, Exchange):
                for port, rows in enumerate(self._input(consumer, 0, filling)):
                    for owner, part in self.worker.layout.split(rows, node.key):
                        yield Parcel(owner, stage, consumer, port, part)
            elif isinstance(node, SparkSelect):
                yield from self._carry(consumer, stage, self._input(consumer, 0, filling))
            elif stage > self.stage and stage not in carried:
                carried.add(stage)
                yield from self._carry(position, stage, self.flows[position])

    def _carry(self, node: int, stage: int, flow: Flow) -> Iterator[Parcel]:
        """Parcels that stay with this pipeline worker."""
        for port, rows in enumerate(flow):
            if len(rows):
                yield Parcel(self.worker.number, stage, node, port, rows)

    def fill_pieces(self) -> Iterator[tuple[dict[int, ZSet], bool]]:
        """All rows of the older nodes that fresh ones start from, a piece at a time; true with the last."""
        pieces = ({position: piece} for position in self.fills for piece in self.spine(position).scan())
        yield from _with_last(pieces, {}) if self.fills else ()

    def spine(self, position: int, slot: int = 0) -> Spine:
        """The state of a node, opened when it is first touched."""
        found = self.spines.get((position, slot))
        if found is None:
            operator = self.worker.operators[position]
            assert operator is not None
            spec = operator.states()[slot]
            spec = replace(spec, name=state_name(self.worker.circuit, position, spec.name))
            found = Spine(spec, self.part, self.files, self.task.runs.get(spec.name, ()))
            self.spines[position, slot] = found
        return found

    def report(self) -> Report:
        """Write what the stage added to its states and what its views put out."""
        forget = self.task.forget
        sealed = []
        for position, spine in self._own_spines():
            started = time.perf_counter()
            sealed.append(seal(spine, self.writer, forget.get(spine.spec.name.partition(".")[0])))
            self._charge(position, started)
        outputs = {name: self._write_change(name, parts) for name, parts in self.changes.items()}
        return Report(
            self.worker.number,
            self.stage,
            added=tuple(run for seal in sealed for run in seal.added),
            removed=tuple(name for seal in sealed for name in seal.removed),
            outputs={name: ref for name, ref in outputs.items() if ref is not None},
            rows_out=self.rows_out,
            late=self.notes.late,
            highest=self.notes.highest,
            seconds=self.seconds,
        )

    def _own_spines(self) -> list[tuple[int, Spine]]:
        """Those that this stage writes, with their nodes; of nodes of earlier stages it only reads."""
        own = set(self.worker.by_stage[self.stage])
        return [(position, spine) for (position, _), spine in self.spines.items() if position in own]

    def _write_change(self, view: str, parts: list[ZSet]) -> SegmentRef | None:
        change = consolidate(concat(parts, parts[0].schema))
        if not len(change):
            return None
        # All in one folder of the term: the driver then makes them durable with few calls.
        place = f"{self.task.folder}/t{self.task.term}/out"
        name = f"{place}/s{self.task.step}-{self.stage}-{self.worker.number}-{new_token()[:13]}"
        return write_segment(self.files.blobs, name, view, change, None, summed=True, durable=False)

    def failure(self, error: StepAborted) -> Report:
        return Report(
            self.worker.number,
            self.stage,
            error=str(error),
            view=error.view,
            operator=error.operator,
            node=error.node,
        )


class _Lazy:
    """A sequence whose items are opened when asked for: most steps touch few states."""

    def __init__(self, open_at: Callable[[int], Spine]) -> None:
        self._open_at = open_at

    def __getitem__(self, index: int) -> Spine:
        return self._open_at(index)


def rounds(parcels: Iterable[Parcel], budget: int) -> Iterator[tuple[dict[int, list[Parcel]], bool]]:
    """Parcels by node, in rounds of about `budget` rows; true with the last. At least one round."""

    def chunks() -> Iterator[dict[int, list[Parcel]]]:
        held: dict[int, list[Parcel]] = {}
        count = 0
        for parcel in parcels:
            if count and count + len(parcel.rows) > budget:
                yield held
                held, count = {}, 0
            held.setdefault(parcel.node, []).append(parcel)
            count += len(parcel.rows)
        if held:
            yield held

    return _with_last(chunks(), {})


def _with_last(items: Iterable[T], default: T) -> Iterator[tuple[T, bool]]:
    """Each item, and whether it is the last; the default alone when there are none."""
    waiting = iter(items)
    current = next(waiting, default)
    for following in waiting:
        yield current, False
        current = following
    yield current, True


def _operator(circuit: Circuit, node: AnyNode) -> Operator | None:
    """What runs a node; None for what the runtime does between stages."""
    if isinstance(node, Exchange | SparkSelect):
        return None
    return build(node, [circuit.nodes[index] for index in node.inputs])


def state_name(circuit: Circuit, position: int, slot: str) -> str:
    """The name of an operator's state: says what it computes, so that it is found again."""
    fingerprint = circuit.fingerprints[position]
    return f"{fingerprint}.{slot}" if slot else fingerprint
