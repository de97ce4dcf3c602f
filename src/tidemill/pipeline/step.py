"""Steps as decisions: what the next one takes, how it ends, what is still to be done. Pure.

    assign ──► assigned ──► complete ──► done       the appends are taken; the output counts
                   │
                   └──────► abort ─────► aborted    the appends stay pending, the views are as they were

At most one step is assigned at a time, and its assignment is durable before it runs: a step that is run
again, by whomever, takes the same appends with the same clock. Appends are taken strictly in order. After
an abort the appends of that step are tried again one at a time, so that the others pass and the one that
fails is known; it blocks those after it until it succeeds or is discarded.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tidemill.pipeline.errors import Forgotten, NoSuchName, NotNow
from tidemill.pipeline.log.head import Entry
from tidemill.pipeline.log.listing import Listing
from tidemill.pipeline.log.root import Blame, Failure, Json, Root, StepRecord, Version, forget


class Limits(Struct, frozen=True):
    """A step takes appends until it has one of these; always at least one append."""

    rows: int = 1_000_000
    appends: int = 10_000


class Pending(Struct, frozen=True):
    """An append that no done step has, with the error of the aborted step that had it, if one had."""

    entry: Entry
    step: int | None = None
    failure: Failure | None = None

    @property
    def offset(self) -> int:
        """What `discard` takes."""
        return self.entry.offset

    def __repr__(self) -> str:
        tables = ", ".join(self.entry.tables)
        failure = f", step={self.step}, failure={self.failure.message!r:.80}" if self.failure else ""
        return f"Pending(offset={self.offset}, tables={tables!r}, rows={self.entry.rows}{failure})"


def assign(
    root: Root, waiting: Sequence[Entry], limits: Limits, *, clock: int, fills: Iterable[str] = ()
) -> Root:
    """The root with the next step assigned; `waiting` are the appends from `root.position` on, or the first
    of them. With none the step is empty, and numbered all the same. Its clock is never behind that of the
    step before, whatever `clock` says.

    While a step is under way nothing changes: that one has to be settled first. When a step with these
    appends could not fill new nodes, the next one only fills: so it is known which of both is the cause.
    """
    if root.under_way is not None:
        return root
    taken = _take(root, waiting, limits)
    if taken and _filled_in_vain(root, tuple(fills), taken[-1].offset + 1):
        taken = []
    stop = taken[-1].offset + 1 if taken else root.position
    skipped = tuple(offset for offset in root.discarded if offset < stop)
    record = StepRecord(
        root.steps.next,
        root.position,
        stop,
        max([clock, *(record.clock for record in root.steps.tail[-1:])]),
        skipped=skipped,
        fills=tuple(fills),
        rows_in=sum(entry.rows for entry in taken if entry.offset not in skipped),
        since=root.clock,
        highest=root.highest,
    )
    return replace(root, steps=root.steps.add(record))


def _filled_in_vain(root: Root, fills: tuple[str, ...], stop: int) -> bool:
    """Whether the last step was to fill these nodes with the same appends, and was aborted."""
    return bool(fills) and any(
        record.state == "aborted" and record.fills == fills and record.offsets and record.stop == stop
        for record in root.steps.tail[-1:]
    )


def _take(root: Root, waiting: Sequence[Entry], limits: Limits) -> list[Entry]:
    """The appends that come next, discarded ones included: they are passed over by the same step."""
    retried = max((blame.stop for blame in root.blamed), default=0)
    taken: list[Entry] = []
    rows = appends = 0
    most = limits.appends
    for expected, entry in enumerate(waiting, root.position):
        if entry.offset != expected:
            raise Forgotten(f"append {expected} is not in the log any more, and no step has it")
        if entry.offset not in root.discarded:
            if appends and (appends >= most or rows + entry.rows > limits.rows):
                break
            if entry.offset < retried:
                most = 1
            rows, appends = rows + entry.rows, appends + 1
        taken.append(entry)
    return taken


class Outcome(Struct, frozen=True):
    """What a step tells beside its output: `late` rows that it dropped, `highest` times that it brought."""

    seconds: float = 0.0
    runtime: str = ""
    late: dict[str, int] = {}
    highest: dict[str, int] = {}


NOTHING_TOLD = Outcome()


def complete(root: Root, step: int, output: Listing, outcome: Outcome = NOTHING_TOLD) -> Root:
    """The root with the step under way done: its appends are taken and its output is the last."""
    record = _under_way(root, step)
    told = {"seconds": outcome.seconds, "runtime": outcome.runtime, "late": outcome.late}
    done = replace(record, state="done", output=output, **told)
    highest = root.highest | {
        label: max(time, root.highest.get(label, time)) for label, time in outcome.highest.items()
    }
    return forget(
        replace(
            root,
            steps=root.steps.with_last(done),
            position=record.stop,
            clock=record.clock,
            highest=highest,
            discarded=tuple(offset for offset in root.discarded if offset >= record.stop),
            blamed=tuple(blame for blame in root.blamed if blame.stop > record.stop),
        )
    )


def abort(root: Root, step: int, failure: Failure, *, blame: bool = True) -> Root:
    """The root with the step under way aborted. Its appends stay pending and bear the blame.

    Not so when a new view could not be filled: then the rows that were there before may be the cause.
    """
    record = _under_way(root, step)
    aborted = replace(record, state="aborted", failure=failure)
    blamed = tuple(
        blame for blame in root.blamed if not record.start <= blame.start < blame.stop <= record.stop
    )
    if record.offsets and blame:
        alone = record.offsets[0] if len(record.offsets) == 1 else None
        blamed = (*blamed, Blame(record.start, record.stop, step, failure, alone))
    return forget(replace(root, steps=root.steps.with_last(aborted), blamed=blamed))


def discard(root: Root, offset: int, appended: int) -> Root:
    """The root in which no step will take this append, of `appended` that there are. It is recorded.

    Repeating it changes nothing. Raises `NoSuchName` for an append that is not pending, and `NotNow` for one
    that a step is trying.
    """
    record = root.under_way
    if record is not None and record.start <= offset < record.stop:
        raise NotNow(f"append {offset} is in step {record.number}, which is under way")
    if not root.position <= offset < appended:
        raise NoSuchName(f"append {offset} is not pending: {root.position} to {appended - 1} are")
    return replace(root, discarded=tuple(sorted({*root.discarded, offset})))


def replan(root: Root, catalog: Json, fills: Iterable[str]) -> Root:
    """The root with another catalog. One under way has changed nothing yet: it fills what is fresh now."""
    root = replace(root, catalog=catalog)
    if root.under_way is None:
        return root
    return replace(root, steps=root.steps.with_last(replace(root.under_way, fills=tuple(fills))))


def pending(root: Root, waiting: Iterable[Entry]) -> list[Pending]:
    """The appends that no done step has and that are not discarded, with what is held against them."""
    return [
        _pending(root, entry)
        for entry in waiting
        if entry.offset >= root.position and entry.offset not in root.discarded
    ]


def blocked(root: Root) -> Blame | None:
    """What is held against the append that comes next, if it has failed alone: it would fail again."""
    come_next = root.position
    while come_next in root.discarded:
        come_next += 1
    return next((blame for blame in root.blamed if blame.alone == come_next), None)


def unfillable(root: Root, fills: tuple[str, ...]) -> bool:
    """Whether the last step was to fill these nodes, and was aborted."""
    return any(record.state == "aborted" and record.fills == fills for record in root.steps.tail[-1:])


def to_replay(version: Version, records: Iterable[StepRecord]) -> list[StepRecord]:
    """The steps to run again from a version, in order: those done, and the one under way.

    Aborted steps changed nothing and are left out. Raises `Forgotten` when the records do not reach back.
    """
    found = list(records)
    if found and found[0].number > version.step:
        raise Forgotten(f"steps {version.step} to {found[0].number - 1} are not kept any more")
    return [record for record in found if record.number >= version.step and record.state != "aborted"]


def _under_way(root: Root, step: int) -> StepRecord:
    record = root.under_way
    if record is None or record.number != step:
        raise ValueError(f"step {step} is not under way; {root.last} is the next to be settled")
    return record


def _pending(root: Root, entry: Entry) -> Pending:
    blames = [blame for blame in root.blamed if blame.start <= entry.offset < blame.stop]
    if not blames:
        return Pending(entry)
    newest = max(blames, key=lambda blame: blame.step)
    return Pending(entry, newest.step, newest.failure)
